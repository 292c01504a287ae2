// `make bench-gate-check` shows that the gate notices: it runs the gate for builds of this commit that are worse on
// purpose, three times each, and expects the verdict `worse`. The builds that break latency also run beside a busy loop
// on one core. GATE_CHECK selects builds by the beginnings of their names.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkOut, git, NODE } from './bench-environment.ts';

const RUNS = 3;
const HEAD = git('rev-parse', 'HEAD');

interface WorseBuild {
  readonly name: string;
  readonly from: string;
  readonly to: string;
  /** The gate compares costs only on a quiet machine. */
  readonly machines: readonly ('quiet' | 'busy')[];
}

const FILE = 'lib/gateway/accept-event.ts';
const ADMITTED = 'exchange.admitted = admitted;';
const ANSWER = 'exchange.answer(answerTo(metrics, this.id, outcome));';
const LAST_IMPORT = "import type { Clock } from '../process/clock.ts';";

const stalling = (ms: number, everyMs: number): Pick<WorseBuild, 'from' | 'to'> => ({
  from: LAST_IMPORT,
  to: `${LAST_IMPORT}
setInterval(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ${ms}), ${everyMs}).unref();`,
});

const BUILDS: readonly WorseBuild[] = [
  { name: 'stands still for 700 ms every 4 s', ...stalling(700, 4_000), machines: ['quiet', 'busy'] },
  { name: 'stands still for 250 ms every second', ...stalling(250, 1_000), machines: ['quiet', 'busy'] },
  {
    name: 'answers one of 200 events with 503',
    from: ANSWER,
    to: `exchange.answer(Math.random() < 0.005 ? UNAVAILABLE : answerTo(metrics, this.id, outcome));`,
    machines: ['quiet', 'busy'],
  },
  {
    name: '15 µs more per event',
    from: ADMITTED,
    to: `${ADMITTED}
  for (const until = performance.now() + 0.015; performance.now() < until; );`,
    machines: ['quiet'],
  },
  {
    name: '10 ms more in one of 50 answers',
    from: ANSWER,
    to: `const answer = () => ${ANSWER}
    if (Math.random() < 0.02) setTimeout(answer, 10);
    else answer();`,
    machines: ['quiet'],
  },
  {
    name: '2 kB more per event',
    from: ADMITTED,
    to: `${ADMITTED}
  Object.assign(globalThis, { kept: Array.from({ length: 250 }, (_, at) => at) });`,
    machines: ['quiet'],
  },
];

const wanted = (process.env['GATE_CHECK'] ?? '').split(',');
let busy: ChildProcess | undefined;
let gate: ChildProcess | undefined;
process.on('exit', () => {
  busy?.kill('SIGKILL');
  gate?.kill();
});
let missed = 0;
for (const build of BUILDS.filter(({ name }) => wanted.some((beginning) => name.startsWith(beginning)))) {
  const root = checkOut(HEAD);
  const path = join(root, FILE);
  const parts = readFileSync(path, 'utf8').split(build.from);
  if (parts.length !== 2) throw new Error(`${FILE} contains ${build.from} ${parts.length - 1} times`);
  writeFileSync(path, parts.join(build.to));
  for (const machine of build.machines) {
    if (machine === 'busy') busy = spawn(NODE, ['-e', 'for (;;);']);
    for (let run = 1; run <= RUNS; run += 1) {
      if (!(await isNoticed(`${build.name}, ${machine} machine, run ${run}`, root))) missed += 1;
    }
    busy?.kill('SIGKILL');
  }
}
process.stdout.write(missed === 0 ? 'the gate noticed every build\n' : `the gate missed ${missed} of its runs\n`);
process.exit(missed === 0 ? 0 : 1);

async function isNoticed(title: string, root: string): Promise<boolean> {
  const args = ['--disable-warning=ExperimentalWarning', join(root, 'bench/gate.ts')];
  gate = spawn(NODE, args, { env: { ...process.env, BENCH_BASE: HEAD }, stdio: ['ignore', 'pipe', 'inherit'] });
  let stdout = '';
  gate.stdout?.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  const [status] = (await once(gate, 'close')) as [number | null];
  const verdicts = stdout.split('\n').filter((line) => line.endsWith(': worse') || (status !== 1 && line !== ''));
  process.stdout.write(`${title}: exit code ${status}\n${verdicts.map((line) => `  ${line}\n`).join('')}`);
  return status === 1 && verdicts.some((line) => line.endsWith(': worse'));
}
