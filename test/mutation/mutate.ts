// How many careless changes the tests notice: `make mutate`.
//
// For each folder of lib its sources are mutated (mutants.ts), and the folder's own tests that run in this process are
// asked: those in test/<folder>/ that start no program of bin. Each mutant is tried with the test files that reach it,
// the nearest by their imports first and of these the quickest, until one fails. A mutant that no test reaches has
// survived.
//
//   FOLDERS         folders of lib, separated by blanks; all by default
//   FILES           only mutants of these files (globs, separated by blanks)
//   MUTATE_SINCE    only mutants of lines that were changed since this commit, with one verdict for all folders
//   MUTATE_MAX      mutants of a verdict; a larger number is sampled (400)
//   MUTATE_SEED     chooses the sample (1)
//   MUTATE_GOAL     percent of a verdict's mutants that must be noticed (85)
//   MUTATE_SECONDS  begins with no mutant after so long, and judges those tried by then; no limit by default
//
// Exit code 1 where a goal is missed, or without MUTATE_SINCE a file has less than 70 %.
import { globSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, matchesGlob } from 'node:path';
import { changedLines } from './changed-lines.ts';
import { distances } from './imports.ts';
import { luaMutants, typescriptMutants, type Mutant } from './mutants.ts';
import { ROOT, Sandbox, type Run } from './sandbox.ts';

const FILE_GOAL = 70;
/** A verdict on fewer says more about chance than about the tests. */
const TRIED_MIN = 20;
const WORKERS = 2;
const BASELINE_TIMEOUT_MS = 120_000;
/** Modules that start the programs of bin. */
const STARTS_PROGRAMS = /\/support\/(?:gateway|program|dispatcher|transcript)\.ts$/;

interface TestFile {
  readonly path: string;
  /** How many imports lie between it and each file of the project. */
  readonly imports: ReadonlyMap<string, number>;
}

interface Observed {
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

/** All mutants of some folders, numbered through, and the texts that hold their switches, by file. */
async function mutantsOf(folders: readonly string[]): Promise<{ mutants: Mutant[]; texts: Map<string, string> }> {
  const mutants: Mutant[] = [];
  const texts = new Map<string, string>();
  for (const folder of folders) {
    for (const file of globSync(`lib/${folder}/**/*.{ts,lua}`, { cwd: ROOT }).sort()) {
      if (changed !== undefined && !changed.has(file)) continue;
      const text = readFileSync(join(ROOT, file), 'utf8');
      const mutated = file.endsWith('.lua')
        ? luaMutants(file, text, mutants.length)
        : await typescriptMutants(file, text, mutants.length);
      mutants.push(...mutated.mutants);
      texts.set(file, mutated.text);
    }
  }
  return { mutants, texts };
}

/** The test files of one folder in this process, with the distances of all that they import. */
function testsOf(folder: string): readonly TestFile[] {
  return globSync(`test/${folder}/**/*.test.ts`, { cwd: ROOT })
    .sort()
    .map((path) => ({ path, imports: distances(path, ROOT) }))
    .filter(({ imports }) => ![...imports.keys()].some((path) => STARTS_PROGRAMS.test(path)));
}

/** What a test file reaches without a mutant, where it must pass. Each is run once, when it is first asked for. */
class Baseline {
  readonly #observed = new Map<string, Promise<Observed>>();
  readonly #seconds = new Map<string, number>();

  /** How long it took; 0 as long as it was not run. */
  secondsOf({ path }: TestFile): number {
    return this.#seconds.get(path) ?? 0;
  }

  of({ path }: TestFile, sandbox: Sandbox): Promise<Observed> {
    const known = this.#observed.get(path);
    if (known !== undefined) return known;
    const observed = this.#observe(path, sandbox);
    this.#observed.set(path, observed);
    return observed;
  }

  async #observe(path: string, sandbox: Sandbox): Promise<Observed> {
    const { ending, seconds, reached, output } = await sandbox.run(path, BASELINE_TIMEOUT_MS);
    if (ending !== 'passed') throw new Error(`${path} ${ending} without a mutant: ${output}`);
    this.#seconds.set(path, seconds);
    return { seconds, mutants: new Set(reached.mutants), scripts: new Set(reached.scripts) };
  }
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

const reaches = ({ mutants, scripts }: Observed, mutant: Mutant): boolean =>
  mutant.text === undefined ? mutants.has(mutant.id) : scripts.has(mutant.file.replace(/^.*\//, ''));

async function isNoticed(
  mutant: Mutant,
  files: readonly TestFile[],
  sandbox: Sandbox,
  baseline: Baseline,
): Promise<boolean> {
  // A script in Lua is imported by nobody, but read.
  const distance = ({ imports }: TestFile): number => imports.get(mutant.file) ?? (mutant.text === undefined ? NaN : 0);
  const importing = files.filter((file) => !Number.isNaN(distance(file)));
  const order = (one: TestFile, other: TestFile): number =>
    distance(one) - distance(other) || baseline.secondsOf(one) - baseline.secondsOf(other);
  for (const file of importing.sort(order)) {
    const observed = await baseline.of(file, sandbox);
    if (!reaches(observed, mutant)) continue;
    const run: Run = await sandbox.run(file.path, 5_000 + observed.seconds * 4_000, mutant);
    if (run.ending !== 'passed') return true;
  }
  return false;
}

interface Trial {
  readonly tried: readonly Tried[];
  /** How many were to be tried. */
  readonly planned: number;
  /** How many there were to choose from. */
  readonly possible: number;
}

async function trial(name: string, folders: readonly string[]): Promise<Trial> {
  const all = await mutantsOf(folders);
  const possible = all.mutants.filter(isChosen);
  const mutants = sampled(possible, number('MUTATE_MAX', 400), number('MUTATE_SEED', 1));
  if (mutants.length === 0) return { tried: [], planned: 0, possible: possible.length };
  const sandboxes = Array.from({ length: WORKERS }, () => new Sandbox());
  try {
    for (const file of new Set(mutants.map((mutant) => mutant.file)))
      for (const sandbox of sandboxes) sandbox.write(file, all.texts.get(file) ?? '');
    const files = new Map(folders.map((folder) => [folder, testsOf(folder)]));
    const baseline = new Baseline();
    const tried: Tried[] = [];
    let toldAt = performance.now();
    await inTurn(mutants, sandboxes, async (mutant, sandbox) => {
      if (performance.now() > endsAt) return;
      const [, folder = ''] = mutant.file.split('/');
      tried.push({ mutant, noticed: await isNoticed(mutant, files.get(folder) ?? [], sandbox, baseline) });
      if (performance.now() < toldAt + 15_000) return;
      toldAt = performance.now();
      const noticed = tried.filter((each) => each.noticed).length;
      print(`  ${name}: ${tried.length} of ${mutants.length}, ${noticed} noticed`);
    });
    return { tried, planned: mutants.length, possible: possible.length };
  } finally {
    for (const sandbox of sandboxes) sandbox.remove();
  }
}

/** Prints the survivors and the score of each file; gives whether the goals are reached. */
function judged(name: string, { tried, planned, possible }: Trial): boolean {
  const goal = number('MUTATE_GOAL', 85);
  for (const { mutant } of tried.filter(({ noticed }) => !noticed))
    print(`  ${mutant.file}:${mutant.line}  ${mutant.change}`);
  let good = true;
  for (const [file, some = []] of Object.entries(Object.groupBy(tried, ({ mutant }) => mutant.file))) {
    const noticed = some.filter((each) => each.noticed).length;
    const score = percent(noticed, some.length);
    const low = changed === undefined && score < FILE_GOAL;
    if (low) good = false;
    if (score < 100)
      print(`  ${score.toFixed(0).padStart(3)} %  ${noticed}/${some.length}  ${file}${low ? '  (too low)' : ''}`);
  }
  const noticed = tried.filter((each) => each.noticed).length;
  const score = percent(noticed, tried.length);
  print(`${name}: ${score.toFixed(1)} % (${noticed} of ${tried.length} mutants noticed, goal ${goal} %)`);
  if (tried.length < planned) print(`${name}: the time was over after ${tried.length} of ${planned} mutants`);
  else if (changed === undefined) return good && score >= goal;
  if (tried.length < TRIED_MIN) {
    print(`${name}: no verdict on fewer than ${TRIED_MIN} of ${possible} mutants`);
    return true;
  }
  if (tried.length === possible) return good && score >= goal;
  // A sample speaks, or what the time allowed: twice its standard deviation is allowed for chance.
  const least = goal - 2 * Math.sqrt((goal * (100 - goal)) / tried.length);
  print(`${name}: a sample of ${tried.length} of ${possible} mutants, which must reach ${least.toFixed(1)} %`);
  return good && score >= least;
}

const endsAt = performance.now() + number('MUTATE_SECONDS', Infinity) * 1_000;
const since = process.env['MUTATE_SINCE'];
const changed = since === undefined || since === '' ? undefined : changedLines(since, ROOT);
const globs = words('FILES');
const isChosen = ({ file, line }: Mutant): boolean =>
  (globs.length === 0 || globs.some((glob) => matchesGlob(file, glob))) &&
  (changed === undefined || changed.get(file)?.has(line) === true);
const touched = (folder: string): boolean =>
  (globs.length === 0 || globs.some((glob) => glob.startsWith(`lib/${folder}/`) || /^\W/.test(glob))) &&
  (changed === undefined || [...changed.keys()].some((file) => file.startsWith(`lib/${folder}/`)));

const folders = (words('FOLDERS').length > 0 ? words('FOLDERS') : readdirSync(join(ROOT, 'lib')).sort()).filter(
  touched,
);
const rounds: readonly (readonly [string, readonly string[]])[] =
  changed === undefined
    ? folders.map((folder) => [`lib/${folder}`, [folder]])
    : [[`what was changed in lib since ${since}`, folders]];
const scores: string[] = [];
for (const [name, some] of rounds) {
  const result = await trial(name, some);
  if (result.planned === 0) {
    if (changed !== undefined) print(`${name}: nothing to mutate`);
    continue;
  }
  if (!judged(name, result)) process.exitCode = 1;
  scores.push(`${name}\t${result.tried.filter(({ noticed }) => noticed).length}\t${result.tried.length}`);
}
const output = process.env['MUTATE_OUTPUT'];
if (output !== undefined) writeFileSync(output, `${scores.join('\n')}\n`);
