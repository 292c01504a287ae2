// How many careless changes the tests notice: `make mutate`.
//
// For each folder of lib its sources are mutated (mutants.ts), and the folder's own tests that run in this process are
// asked: those in test/<folder>/ that start no program of bin. Each mutant is tried with the test files that reach it,
// the quickest first, until one fails. A mutant that no test reaches has survived.
//
//   FOLDERS         folders of lib, separated by blanks; all by default
//   FILES           only mutants of these files (globs, separated by blanks)
//   MUTATE_SINCE    only mutants of lines that were changed since this commit
//   MUTATE_MAX      mutants of a folder; a larger number is sampled (400)
//   MUTATE_SEED     chooses the sample (1)
//   MUTATE_GOAL     percent of a folder's mutants that must be noticed (85)
//   MUTATE_SECONDS  stops trying after so long, and judges what was tried; no limit by default
//
// Exit code 1 where a folder misses the goal, or a file has less than 70 %.
import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, matchesGlob } from 'node:path';
import { luaMutants, typescriptMutants, type Mutant } from './mutants.ts';
import { ROOT, Sandbox, type Run } from './sandbox.ts';

const FILE_GOAL = 70;
const WORKERS = 2;
const BASELINE_TIMEOUT_MS = 120_000;
/** Modules that start the programs of bin. */
const STARTS_PROGRAMS = /\/support\/(?:gateway|program|dispatcher|transcript)\.ts$/;

interface TestFile {
  readonly path: string;
  readonly seconds: number;
  readonly mutants: ReadonlySet<string>;
  readonly scripts: ReadonlySet<string>;
}

interface Tried {
  readonly mutant: Mutant;
  readonly noticed: boolean;
}

const words = (name: string): readonly string[] => (process.env[name] ?? '').split(/\s+/).filter((word) => word !== '');
const number = (name: string, otherwise: number): number => Number(process.env[name] ?? otherwise);
const print = (line: string): void => void process.stdout.write(`${line}\n`);
const percent = (some: number, all: number): number => (all === 0 ? 100 : (100 * some) / all);

/** mulberry32: small and repeatable, for samples. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function sampled<T>(all: readonly T[], size: number, seed: number): readonly T[] {
  const random = randomFrom(seed);
  const left = [...all];
  for (let at = 0; at < Math.min(size, left.length); at += 1) {
    const from = at + Math.floor(random() * (left.length - at));
    [left[at], left[from]] = [left[from] as T, left[at] as T];
  }
  return left.slice(0, size);
}

/** The lines that were changed since a commit, by file. */
function changedLines(since: string): ReadonlyMap<string, ReadonlySet<number>> {
  const diff = execFileSync('git', ['diff', '-U0', '--no-renames', since, '--', 'lib'], {
    cwd: ROOT,
    maxBuffer: 2 ** 28,
  });
  const changed = new Map<string, Set<number>>();
  let lines = new Set<number>();
  for (const line of diff.toString().split('\n')) {
    const file = /^\+\+\+ b\/(.*)$/.exec(line)?.[1];
    if (file !== undefined) changed.set(file, (lines = new Set()));
    const hunk = /^@@ -\S+ \+(\d+)(?:,(\d+))? @@/.exec(line);
    if (hunk === null) continue;
    for (let at = 0; at < Number(hunk[2] ?? 1); at += 1) lines.add(Number(hunk[1]) + at);
  }
  return changed;
}

/** Whether a test file, or a file of tests that it imports, starts programs of bin. */
function startsPrograms(path: string, seen = new Set<string>()): boolean {
  if (STARTS_PROGRAMS.test(path)) return true;
  if (seen.has(path) || !existsSync(join(ROOT, path))) return false;
  seen.add(path);
  const imports = readFileSync(join(ROOT, path), 'utf8').matchAll(
    /^(?:import|export)\b.*?from '(\.[^']+\.ts)'|^import '(\.[^']+\.ts)'/gms,
  );
  return [...imports].some(([, from, bare]) => {
    const imported = join(dirname(path), from ?? bare ?? '');
    return imported.startsWith('test/') && startsPrograms(imported, seen);
  });
}

async function mutantsOf(folder: string, write: (file: string, text: string) => void): Promise<readonly Mutant[]> {
  const mutants: Mutant[] = [];
  for (const file of globSync(`lib/${folder}/**/*.{ts,lua}`, { cwd: ROOT }).sort()) {
    const text = readFileSync(join(ROOT, file), 'utf8');
    const mutated = file.endsWith('.lua')
      ? luaMutants(file, text, mutants.length)
      : await typescriptMutants(file, text, mutants.length);
    mutants.push(...mutated.mutants);
    write(file, mutated.text);
  }
  return mutants;
}

/** Runs every test file without a mutant: it must pass, and says what it reaches. */
async function observed(paths: readonly string[], sandboxes: readonly Sandbox[]): Promise<readonly TestFile[]> {
  const files: TestFile[] = [];
  await inTurn(paths, sandboxes, async (path, sandbox) => {
    const { ending, seconds, reached, output } = await sandbox.run(path, BASELINE_TIMEOUT_MS);
    if (ending !== 'passed') throw new Error(`${path} ${ending} without a mutant: ${output}`);
    files.push({ path, seconds, mutants: new Set(reached.mutants), scripts: new Set(reached.scripts) });
  });
  return files.sort((one, other) => one.seconds - other.seconds);
}

/** Works through `items` with all sandboxes at once. */
async function inTurn<T>(
  items: readonly T[],
  sandboxes: readonly Sandbox[],
  work: (item: T, sandbox: Sandbox) => Promise<void>,
): Promise<void> {
  let next = 0;
  await Promise.all(
    sandboxes.map(async (sandbox) => {
      for (let item = items[next++]; item !== undefined; item = items[next++]) await work(item, sandbox);
    }),
  );
}

const reaches = ({ mutants, scripts }: TestFile, mutant: Mutant): boolean =>
  mutant.text === undefined ? mutants.has(mutant.id) : scripts.has(mutant.file.replace(/^.*\//, ''));

async function isNoticed(mutant: Mutant, files: readonly TestFile[], sandbox: Sandbox): Promise<boolean> {
  for (const file of files.filter((each) => reaches(each, mutant))) {
    const run: Run = await sandbox.run(file.path, 5_000 + file.seconds * 4_000, mutant);
    if (run.ending !== 'passed') return true;
  }
  return false;
}

async function tryFolder(
  folder: string,
  chosen: (mutants: readonly Mutant[]) => readonly Mutant[],
): Promise<readonly Tried[]> {
  const sandboxes = Array.from({ length: WORKERS }, () => new Sandbox());
  try {
    const mutants = chosen(
      await mutantsOf(folder, (file, text) => sandboxes.forEach((each) => each.write(file, text))),
    );
    if (mutants.length === 0) return [];
    const paths = globSync(`test/${folder}/**/*.test.ts`, { cwd: ROOT }).filter((path) => !startsPrograms(path));
    const files = await observed(paths, sandboxes);
    const tried: Tried[] = [];
    const begun = performance.now();
    const endsAt = begun + number('MUTATE_SECONDS', Infinity) * 1_000;
    let toldAt = begun;
    await inTurn(mutants, sandboxes, async (mutant, sandbox) => {
      if (performance.now() > endsAt) return;
      tried.push({ mutant, noticed: await isNoticed(mutant, files, sandbox) });
      if (performance.now() < toldAt + 15_000) return;
      toldAt = performance.now();
      const noticed = tried.filter((each) => each.noticed).length;
      const each = (toldAt - begun) / 1_000 / tried.length;
      print(`  lib/${folder}: ${tried.length} of ${mutants.length}, ${noticed} noticed, ${each.toFixed(2)} s each`);
    });
    return tried;
  } finally {
    for (const sandbox of sandboxes) sandbox.remove();
  }
}

/** Prints the survivors and the score of each file; gives whether folder and files reach their goals. */
function judged(folder: string, tried: readonly Tried[]): boolean {
  const goal = number('MUTATE_GOAL', 85);
  for (const { mutant } of tried.filter(({ noticed }) => !noticed))
    print(`  ${mutant.file}:${mutant.line}  ${mutant.change}`);
  let good = true;
  for (const [file, some = []] of Object.entries(Object.groupBy(tried, ({ mutant }) => mutant.file))) {
    const noticed = some.filter((each) => each.noticed).length;
    const score = percent(noticed, some.length);
    if (score < FILE_GOAL) good = false;
    if (score < 100)
      print(
        `  ${score.toFixed(0).padStart(3)} %  ${noticed}/${some.length}  ${file}${score < FILE_GOAL ? '  (too low)' : ''}`,
      );
  }
  const noticed = tried.filter((each) => each.noticed).length;
  const score = percent(noticed, tried.length);
  print(`lib/${folder}: ${score.toFixed(1)} % (${noticed} of ${tried.length} mutants noticed, goal ${goal} %)`);
  return good && score >= goal;
}

const since = process.env['MUTATE_SINCE'];
const changed = since === undefined || since === '' ? undefined : changedLines(since);
const globs = words('FILES');
const isChosen = ({ file, line }: Mutant): boolean =>
  (globs.length === 0 || globs.some((glob) => matchesGlob(file, glob))) &&
  (changed === undefined || changed.get(file)?.has(line) === true);
const touched = (folder: string): boolean =>
  (globs.length === 0 || globs.some((glob) => glob.startsWith(`lib/${folder}/`) || /^\W/.test(glob))) &&
  (changed === undefined || [...changed.keys()].some((file) => file.startsWith(`lib/${folder}/`)));

const folders = words('FOLDERS').length > 0 ? words('FOLDERS') : readdirSync(join(ROOT, 'lib')).sort();
const scores: string[] = [];
for (const folder of folders.filter(touched)) {
  const tried = await tryFolder(folder, (all) =>
    sampled(all.filter(isChosen), number('MUTATE_MAX', 400), number('MUTATE_SEED', 1)),
  );
  if (tried.length === 0) continue;
  if (!judged(folder, tried)) process.exitCode = 1;
  scores.push(`lib/${folder}\t${tried.filter(({ noticed }) => noticed).length}\t${tried.length}`);
}
const output = process.env['MUTATE_OUTPUT'];
if (output !== undefined) writeFileSync(output, `${scores.join('\n')}\n`);
