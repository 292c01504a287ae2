// `make bench-gate-check` shows that the gate notices: it runs the gate for builds of this commit that are worse on
// purpose, three times each, and expects the verdict `worse`. A quiet machine needs about 35 minutes.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkOut, git, NODE } from './bench-environment.ts';

const RUNS = 3;
const HEAD = git('rev-parse', 'HEAD');

interface WorseBuild {
  readonly name: string;
  readonly from: string;
  readonly to: string;
}

const FILE = 'lib/gateway/accept-event.ts';
const BUILDS: readonly WorseBuild[] = [
  {
    name: '15 µs more per event',
    from: 'exchange.admitted = admitted;',
    to: `exchange.admitted = admitted;
  for (const until = performance.now() + 0.015; performance.now() < until; );`,
  },
  {
    name: '10 ms more in one of 50 answers',
    from: '    exchange.answer(answerTo(metrics, this.id, outcome));',
    to: `    const answer = () => exchange.answer(answerTo(metrics, this.id, outcome));
    if (Math.random() < 0.02) setTimeout(answer, 10);
    else answer();`,
  },
  {
    name: '2 kB more per event',
    from: 'exchange.admitted = admitted;',
    to: `exchange.admitted = admitted;
  Object.assign(globalThis, { kept: Array.from({ length: 250 }, (_, at) => at) });`,
  },
];

let missed = 0;
for (const { name, from, to } of BUILDS) {
  const root = checkOut(HEAD);
  const path = join(root, FILE);
  const parts = readFileSync(path, 'utf8').split(from);
  if (parts.length !== 2) throw new Error(`${FILE} contains ${from} ${parts.length - 1} times`);
  writeFileSync(path, parts.join(to));
  for (let run = 1; run <= RUNS; run += 1) {
    const env = { ...process.env, BENCH_BASE: HEAD };
    const args = ['--disable-warning=ExperimentalWarning', join(root, 'bench/gate.ts')];
    const { status, stdout } = spawnSync(NODE, args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
    const verdicts = stdout.split('\n').filter((line) => line.endsWith(': worse') || (status !== 1 && line !== ''));
    process.stdout.write(`${name}, run ${run}: exit code ${status}\n${verdicts.map((line) => `  ${line}\n`).join('')}`);
    if (status !== 1) missed += 1;
  }
}
process.stdout.write(missed === 0 ? 'the gate noticed every build\n' : `the gate missed ${missed} of its runs\n`);
process.exit(missed === 0 ? 0 : 1);
