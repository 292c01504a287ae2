// `make mutate` lists wrong changes that the tests do not notice. Each mutant runs against the test files of
// test/<folder>/ that reach it and start no program, the fastest first, until one fails. FOLDERS selects folders of
// lib (default: all), and FILES selects files by glob. MUTATE_MAX limits the mutants per folder (default: 400) by
// drawing a random sample with the seed MUTATE_SEED (default: 1).
import { globSync, readdirSync, readFileSync } from 'node:fs';
import { join, matchesGlob } from 'node:path';
import { Random } from '../campaign/random.ts';
import { luaMutants, typescriptMutants, type Mutant } from './mutants.ts';
import { ROOT, Sandbox } from './sandbox.ts';

const WORKERS = 2;
const BASELINE_TIMEOUT_MS = 120_000;
/** Imports of modules that start the programs in bin. */
const STARTS_PROGRAMS = /\/support\/(?:file-gateway|gateway|pipeline|program|transcript)\.ts'/;

/** The mutants and scripts that a test file reaches in an unmutated run. */
interface Observed {
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

function sampled<T>(all: readonly T[], size: number, seed: number): readonly T[] {
  const random = new Random(seed);
  const left = [...all];
  for (let at = 0; at < Math.min(size, left.length); at += 1) {
    const from = at + Math.floor(random.fraction() * (left.length - at));
    [left[at], left[from]] = [left[from] as T, left[at] as T];
  }
  return left.slice(0, size);
}

async function mutantsOf(folder: string): Promise<{ mutants: Mutant[]; texts: Map<string, string> }> {
  const mutants: Mutant[] = [];
  const texts = new Map<string, string>();
  for (const file of globSync(`lib/${folder}/**/*.{ts,lua}`, { cwd: ROOT }).sort()) {
    const text = readFileSync(join(ROOT, file), 'utf8');
    const mutated = file.endsWith('.lua')
      ? luaMutants(file, text, mutants.length)
      : await typescriptMutants(file, text, mutants.length);
    mutants.push(...mutated.mutants);
    texts.set(file, mutated.text);
  }
  return { mutants, texts };
}

function testsOf(folder: string): readonly string[] {
  return globSync(`test/${folder}/**/*.test.ts`, { cwd: ROOT })
    .sort()
    .filter((path) => !STARTS_PROGRAMS.test(readFileSync(join(ROOT, path), 'utf8')));
}

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

async function observed(paths: readonly string[], sandboxes: readonly Sandbox[]): Promise<readonly Observed[]> {
  const all: Observed[] = [];
  await inTurn(paths, sandboxes, async (path, sandbox) => {
    const { ending, seconds, reached, output } = await sandbox.run(path, BASELINE_TIMEOUT_MS);
    if (ending !== 'passed') throw new Error(`${path} ${ending} without a mutant: ${output}`);
    all.push({ path, seconds, mutants: new Set(reached.mutants), scripts: new Set(reached.scripts) });
  });
  return all.sort((one, other) => one.seconds - other.seconds);
}

async function isNoticed(mutant: Mutant, files: readonly Observed[], sandbox: Sandbox): Promise<boolean> {
  for (const file of files.filter((each) => reaches(each, mutant))) {
    const { ending } = await sandbox.run(file.path, 5_000 + file.seconds * 4_000, mutant);
    if (ending !== 'passed') return true;
  }
  return false;
}

async function trial(folder: string): Promise<readonly Tried[]> {
  const all = await mutantsOf(folder);
  const mutants = sampled(all.mutants.filter(isChosen), number('MUTATE_MAX', 400), number('MUTATE_SEED', 1));
  const sandboxes = Array.from({ length: WORKERS }, () => new Sandbox());
  try {
    for (const file of new Set(mutants.map((mutant) => mutant.file)))
      for (const sandbox of sandboxes) sandbox.write(file, all.texts.get(file) ?? '');
    const files = await observed(testsOf(folder), sandboxes);
    const tried: Tried[] = [];
    let printedAt = performance.now();
    await inTurn(mutants, sandboxes, async (mutant, sandbox) => {
      tried.push({ mutant, noticed: await isNoticed(mutant, files, sandbox) });
      if (performance.now() < printedAt + 15_000) return;
      printedAt = performance.now();
      const noticed = tried.filter((each) => each.noticed).length;
      print(`  lib/${folder}: ${tried.length} of ${mutants.length}, ${noticed} noticed`);
    });
    return tried;
  } finally {
    for (const sandbox of sandboxes) sandbox.remove();
  }
}

function printSurvivors(folder: string, tried: readonly Tried[]): void {
  for (const { mutant } of tried.filter(({ noticed }) => !noticed))
    print(`  ${mutant.file}:${mutant.line}  ${mutant.change}`);
  const score = (some: readonly Tried[]): string => {
    const noticed = some.filter((each) => each.noticed).length;
    return `${((100 * noticed) / some.length).toFixed(0).padStart(3)} % (${noticed} of ${some.length} noticed)`;
  };
  for (const [file, some = []] of Object.entries(Object.groupBy(tried, ({ mutant }) => mutant.file)))
    if (some.some(({ noticed }) => !noticed)) print(`  ${score(some)}  ${file}`);
  print(`lib/${folder}: ${score(tried)}`);
}

const globs = words('FILES');
const isChosen = ({ file }: Mutant): boolean => globs.length === 0 || globs.some((glob) => matchesGlob(file, glob));
const touched = (folder: string): boolean =>
  globs.length === 0 || globs.some((glob) => glob.startsWith(`lib/${folder}/`) || /^\W/.test(glob));

const folders = words('FOLDERS').length > 0 ? words('FOLDERS') : readdirSync(join(ROOT, 'lib')).sort();
for (const folder of folders.filter(touched)) {
  const tried = await trial(folder);
  if (tried.length > 0) printSurvivors(folder, tried);
}
