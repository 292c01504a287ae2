// toollint against plain ESLint on a real project, as it is: CPU time and peak memory of both, cold and with their
// caches.
//
//   bin/node bench/toollint/real-project.ts CHECKOUT [--config FILE] [--rounds N] [paths...]
//
// CHECKOUT is a working copy with its dependencies; paths (default '.') are what both lint, with CHECKOUT's own
// eslint.config.* or with FILE. Both run the same ESLint: CHECKOUT's, or this repository's where that is neither 9 nor
// 10. Rounds alternate which of the two goes first; the figures are medians. CPU time is user and system time of the
// process, which other work on the machine changes less than the clock. Exit code 1 when a figure is above its limit.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values, positionals } = parseArgs({
  options: { rounds: { type: 'string', default: '5' }, config: { type: 'string' } },
  allowPositionals: true,
});
const [checkout = '', ...given] = positionals;
if (checkout === '') {
  throw new Error('usage: bin/node bench/toollint/real-project.ts CHECKOUT [--config FILE] [--rounds N] [paths...]');
}
const rounds = Number(values.rounds);
const root = resolve(checkout);
const paths = given.length === 0 ? ['.'] : given;
const config = values.config === undefined ? [] : ['--config', resolve(values.config)];
const toollint = fileURLToPath(new URL('../../bin/toollint', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'toollint-bench-'));
const preload = join(folder, 'usage.mjs');
writeFileSync(
  preload,
  `import { writeSync } from 'node:fs';\n` +
    `process.on('exit', () => writeSync(3, JSON.stringify(process.resourceUsage())));\n`,
);

/** What a figure may be, as a multiple of plain ESLint's. */
const LIMITS = { cold: { CPU: 1.1, memory: 0.75 }, warm: { CPU: 1.2, memory: Infinity } };

interface Cost {
  readonly seconds: number;
  readonly megabytes: number;
}

/** One run; findings (exit code 1) and an incomplete analysis (3) are no failure here. */
async function cost(command: string, args: readonly string[]): Promise<Cost> {
  const env = { ...process.env, NODE_OPTIONS: `--import ${preload}` };
  const child = spawn(command, args, { cwd: root, env, stdio: ['ignore', 'ignore', 'pipe', 'pipe'] });
  let usage = '';
  let complaint = '';
  (child.stdio[3] as NodeJS.ReadableStream).on('data', (chunk) => (usage += String(chunk)));
  child.stderr?.on('data', (chunk) => (complaint += String(chunk)));
  await once(child, 'close');
  if (![0, 1, 3].includes(child.exitCode ?? -1))
    throw new Error(`${command} ended with ${child.exitCode}: ${complaint}`);
  const { maxRSS, userCPUTime, systemCPUTime } = JSON.parse(usage) as NodeJS.ResourceUsage;
  return { seconds: (userCPUTime + systemCPUTime) / 1e6, megabytes: maxRSS / 1024 };
}

const median = (numbers: readonly number[]) =>
  [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;

/** The executable of the ESLint that toollint runs for the checkout. */
function eslintProgram(): string {
  for (const from of [join(root, 'package.json'), import.meta.filename]) {
    try {
      const manifest = createRequire(from).resolve('eslint/package.json');
      const { version } = createRequire(from)(manifest) as { version: string };
      if (/^(?:9|10)\./u.test(version)) return join(manifest, '../bin/eslint.js');
    } catch {
      continue;
    }
  }
  throw new Error('no ESLint 9 or 10');
}

async function compared(
  name: keyof typeof LIMITS,
  eslintArgs: readonly string[],
  ownArgs: readonly string[],
): Promise<void> {
  const plain = [eslintProgram(), '-f', 'json', '-o', join(folder, 'eslint.json'), ...config, ...eslintArgs, ...paths];
  const own = ['scan', '--silent', '-o', join(folder, 'report.json'), ...config, ...ownArgs, ...paths];
  const subjects = { eslint: () => cost(process.execPath, plain), toollint: () => cost(toollint, own) };
  const costs: Record<keyof typeof subjects, Cost[]> = { eslint: [], toollint: [] };
  for (const run of Object.values(subjects)) await run();
  for (let round = 0; round < rounds; round += 1) {
    const order = round % 2 === 0 ? (['eslint', 'toollint'] as const) : (['toollint', 'eslint'] as const);
    for (const subject of order) costs[subject].push(await subjects[subject]());
  }
  const seconds = {
    eslint: median(costs.eslint.map((one) => one.seconds)),
    own: median(costs.toollint.map((one) => one.seconds)),
  };
  const megabytes = {
    eslint: median(costs.eslint.map((one) => one.megabytes)),
    own: median(costs.toollint.map((one) => one.megabytes)),
  };
  const tell = (what: 'CPU' | 'memory', of: typeof seconds, unit: string) => {
    const ratio = of.own / of.eslint;
    const limit = LIMITS[name][what];
    const figures = `ESLint ${of.eslint.toFixed(2)} ${unit}, toollint ${of.own.toFixed(2)} ${unit}`;
    const against = limit === Infinity ? '' : ` (limit ${limit.toFixed(2)})`;
    process.stdout.write(`${name} ${what.padEnd(6)} ${figures}: ${ratio.toFixed(2)} times${against}\n`);
    if (ratio > limit) process.exitCode = 1;
  };
  tell('CPU', seconds, 's');
  tell('memory', megabytes, 'MB');
}

try {
  await compared('cold', [], []);
  const caches = { eslint: join(folder, 'eslintcache'), own: join(folder, 'toollintcache') };
  await compared(
    'warm',
    ['--cache', '--cache-strategy', 'content', '--cache-location', caches.eslint],
    ['--cache', '--cache-location', caches.own],
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
