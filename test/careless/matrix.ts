// make careless: which test files notice a careless change? Applies each patch of test/careless/AREA to a clone of
// HEAD, runs the ordinary tests, and reports the files that fail twice, but not without the change. The file that a
// patch names ("Noticed by") runs first, then the nearest ones, until one fails.
//
//   CARELESS=http,P43         areas, or parts of names of patches; all by default
//   CARELESS_ALL=1            every test file that can reach the changed file, which shows what may be deleted
//   CARELESS_WRITE=1          write into each patch which file has noticed it
import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');
const CLONE = mkdtempSync(join(tmpdir(), 'ingest-careless-'));
/** Test files of one run of node. The next files run only if none of these has failed. */
const FILES_PER_RUN = 10;
const RUN_TIMEOUT_MS = 600_000;
const NOTICED_BY = /^Noticed by (\S+)\n/;

interface Row {
  readonly area: string;
  readonly change: string;
  readonly files: readonly string[];
  readonly noticedBy: readonly string[];
}

const git = (...args: string[]): string => execFileSync('git', args, { cwd: CLONE, encoding: 'utf8' });

function clone(): void {
  execFileSync('git', ['clone', '--quiet', '--shared', ROOT, CLONE]);
  symlinkSync(join(ROOT, 'node_modules'), join(CLONE, 'node_modules'));
}

/** The files that a file names in string literals, by a relative path or by a path from the root. */
function namedIn(path: string): readonly string[] {
  if (path.endsWith('.lua') || path.endsWith('.md')) return [];
  const text = readFileSync(join(CLONE, path), 'utf8');
  const literals = text.matchAll(/['"`]([\w./-]+)['"`]/g);
  return Array.from(literals, ([, literal = '']) => literal).flatMap((literal) =>
    [
      join(dirname(path), literal),
      literal,
      join('lib/redis/stream/lua', literal),
      join('lib/telemetry', literal),
    ].filter(
      (candidate) =>
        candidate !== path && existsSync(join(CLONE, candidate)) && /[\w]\.\w+$|^bin\/[\w-]+$/.test(candidate),
    ),
  );
}

/** For each file, the files that name it. `bin/PROGRAM` starts `bin/PROGRAM.ts`. */
function namers(): ReadonlyMap<string, readonly string[]> {
  const result = new Map<string, string[]>();
  for (const path of git('ls-files', 'lib', 'bin', 'test', 'deploy', 'bench').trim().split('\n')) {
    const names = path.startsWith('bin/') && !path.includes('.') ? [`${path}.ts`] : namedIn(path);
    for (const name of names) result.set(name, [...(result.get(name) ?? []), path]);
  }
  return result;
}

/** Test files that can reach one of `changed`; those of the same folder of `test` first, then those that name it. */
function testsFor(changed: readonly string[], graph: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const reached = new Set(changed);
  for (const path of reached) for (const namer of graph.get(path) ?? []) reached.add(namer);
  const areas = changed.map((path) => path.replace(/^(?:lib|test)\//, '').split('/')[0] ?? '');
  const isNear = (path: string): boolean => areas.some((area) => path.startsWith(`test/${area}/`));
  const all = globSync('test/**/*.test.ts', { cwd: CLONE });
  const near = [...reached, ...all.filter(isNear)].filter((path) => path.endsWith('.test.ts'));
  const rest = all.filter((path) => !changed.every((one) => /^(?:lib|bin)\/.*\.ts$/.test(one)) && !near.includes(path));
  // Only long tests run the programs of a page.
  const isPage = changed.every((path) => path.endsWith('.md'));
  const ofPage = isPage ? [...reached].filter((path) => path.startsWith('test/clients/')) : [];
  return [...new Set([...ofPage, ...near.filter(isNear), ...near, ...rest])];
}

const CACHED = { NODE_COMPILE_CACHE: join(ROOT, 'node_modules/.cache/compile') };

/** Runs test files in the clone and returns those that fail. */
function failing(files: readonly string[]): readonly string[] {
  const report = join(CLONE, '.failures');
  rmSync(report, { force: true });
  const options = ['--disable-warning=ExperimentalWarning', '--experimental-test-tag-filter=not long', '--test'];
  const limits = [`--test-concurrency=${availableParallelism() + 1}`, '--test-timeout=180000'];
  const { status } = spawnSync(
    join(CLONE, 'bin/node'),
    [...options, ...limits, '--test-reporter=./test/support/reporter.ts', ...files],
    { cwd: CLONE, env: { ...process.env, ...CACHED, FAILURES_FILE: report }, timeout: RUN_TIMEOUT_MS, stdio: 'ignore' },
  );
  if (status === 0) return [];
  if (!existsSync(report)) return files;
  const names = readFileSync(report, 'utf8').matchAll(/^(test\/\S+\.ts):\d+: /gm);
  return [...new Set(Array.from(names, ([, name = '']) => name))].filter((name) => files.includes(name));
}

/** The result of each test file that has run without a change. */
const isSound = new Map<string, boolean>();

/** Runs test files without the change of the patch, and returns those that pass. */
function sound(patch: string, files: readonly string[]): readonly string[] {
  const unknown = files.filter((file) => !isSound.has(file));
  if (unknown.length > 0) {
    git('apply', '-R', '--recount', '-C1', patch);
    const failed = failing(unknown);
    for (const file of unknown) isSound.set(file, !failed.includes(file));
    git('apply', '--recount', '-C1', patch);
  }
  return files.filter((file) => isSound.get(file));
}

function noticedBy(patch: string, tests: readonly string[]): readonly string[] {
  const [, first = ''] = NOTICED_BY.exec(readFileSync(patch, 'utf8')) ?? [];
  const others = tests.filter((file) => file !== first);
  const batches = existsSync(join(CLONE, first)) && first !== '' ? [[first]] : [];
  for (let at = 0; at < others.length; at += FILES_PER_RUN) batches.push(others.slice(at, at + FILES_PER_RUN));
  const noticed: string[] = [];
  for (const batch of batches) {
    const failed = failing(batch);
    // A test that fails once may have been disturbed by another one.
    if (failed.length > 0) noticed.push(...sound(patch, failing(failed)));
    if (noticed.length > 0 && process.env['CARELESS_ALL'] === undefined) break;
  }
  return noticed;
}

function write(patch: string, [file]: readonly string[]): void {
  const text = readFileSync(patch, 'utf8').replace(NOTICED_BY, '');
  if (file !== undefined) writeFileSync(patch, `Noticed by ${file}\n${text}`);
}

function rowOf(patch: string, graph: ReadonlyMap<string, readonly string[]>): Row {
  git('apply', '--recount', '-C1', join(ROOT, patch));
  const files = git('diff', '--name-only').trim().split('\n');
  const row: Row = {
    area: basename(dirname(patch)),
    change: basename(patch, '.patch'),
    files,
    noticedBy: noticedBy(join(ROOT, patch), testsFor(files, graph)),
  };
  if (process.env['CARELESS_WRITE'] !== undefined) write(join(ROOT, patch), row.noticedBy);
  git('checkout', '--quiet', '--', '.');
  return row;
}

const wanted = (process.env['CARELESS'] ?? '').split(',');
const patches = globSync('test/careless/*/*.patch', { cwd: ROOT })
  .filter((patch) => wanted.some((part) => patch.includes(part)))
  .sort();
clone();
const graph = namers();
const rows: Row[] = [];
let stale = 0;
for (const patch of patches) {
  try {
    const row = rowOf(patch, graph);
    rows.push(row);
    process.stdout.write(`${row.area}/${row.change}: ${row.noticedBy.join(' ') || 'NOT NOTICED'}\n`);
  } catch (cause) {
    stale += 1;
    git('checkout', '--quiet', '--', '.');
    process.stdout.write(`${relative(ROOT, patch)}: does not apply: ${String(cause).split('\n')[1] ?? ''}\n`);
  }
}
for (const [area, changes] of Map.groupBy(rows, (row) => row.area)) {
  const noticed = changes.filter((row) => row.noticedBy.length > 0).length;
  process.stdout.write(`${area}: ${noticed} of ${changes.length} noticed\n`);
}
mkdirSync(join(ROOT, 'bench/results'), { recursive: true });
writeFileSync(join(ROOT, 'bench/results/careless.json'), JSON.stringify(rows, null, 2));
rmSync(CLONE, { recursive: true, force: true });
process.exitCode = stale > 0 || rows.some((row) => row.noticedBy.length === 0) ? 1 : 0;
