// toollint against plain ESLint on a real project, as it is: CPU time and peak memory of both, cold and with their caches.
//
//   bin/node bench/toollint/real-project.ts CHECKOUT [--rounds N] [paths...]
//
// CHECKOUT is a working copy with its dependencies and an eslint.config.*; paths (default '.') are what both lint. Rounds
// alternate which of the two goes first; the figures are medians. CPU time is user and system time of the process, which
// other work on the machine changes less than the clock.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values, positionals } = parseArgs({
  options: { rounds: { type: 'string', default: '5' } },
  allowPositionals: true,
});
const [checkout = '', ...given] = positionals;
if (checkout === '') throw new Error('usage: bin/node bench/toollint/real-project.ts CHECKOUT [--rounds N] [paths...]');
const rounds = Number(values.rounds);
const root = resolve(checkout);
const paths = given.length === 0 ? ['.'] : given;
const toollint = fileURLToPath(new URL('../../bin/toollint', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'toollint-bench-'));
const preload = join(folder, 'usage.mjs');
writeFileSync(
  preload,
  `import { writeSync } from 'node:fs';\nprocess.on('exit', () => writeSync(3, JSON.stringify(process.resourceUsage())));\n`,
);

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

async function compared(name: string, eslintArgs: readonly string[], ownArgs: readonly string[]): Promise<void> {
  const subjects = {
    eslint: () =>
      cost(process.execPath, [
        join(root, 'node_modules/eslint/bin/eslint.js'),
        '-f',
        'json',
        '-o',
        join(folder, 'eslint.json'),
        ...eslintArgs,
        ...paths,
      ]),
    toollint: () => cost(toollint, ['scan', '--silent', '-o', join(folder, 'report.json'), ...ownArgs, ...paths]),
  };
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
  const line = (what: string, of: typeof seconds, unit: string) =>
    `${name.padEnd(6)} ${what.padEnd(7)} ESLint ${of.eslint.toFixed(2)} ${unit}, toollint ${of.own.toFixed(2)} ${unit}: ${(of.own / of.eslint).toFixed(2)} times\n`;
  process.stdout.write(line('CPU', seconds, 's') + line('memory', megabytes, 'MB'));
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
