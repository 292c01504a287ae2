// `make bench` prints the rate of accepted events and the p99 of the canonical workload, then a table for each case.
// It writes all samples to an NDJSON file.
//
// A case has several rounds. A round executes all runs of the case once, and every second round reverses their order.
// Every run starts a fresh Redis and fresh servers. A case with all its rounds and labels also replaces its figures in
// bench/figures.json, and the README's picture. Progress goes to standard error.
//
// Exit codes: 0 if all goals were reached, 1 if one was missed, 3 if one has no verdict.
//
// BENCH_ROUNDS (5), BENCH_SECONDS (3) and BENCH_CASES (comma-separated names; all by default) select what runs.
// BENCH_LABELS (comma-separated beginnings of labels) selects some runs of a case.
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Bench } from './bench.ts';
import type { BenchCase } from './bench-case.ts';
import { ROOT } from './bench-environment.ts';
import { CASES, roundsWanted, ROUNDS_DEFAULT } from './cases.ts';
import { figuresOf, readMeasurements, record } from './figures.ts';
import { machine } from './machine.ts';
import { progress, type Run, type Sample } from './measure.ts';
import { written } from './metrics.ts';
import { costChart } from './report/cost-chart.ts';
import { caseTable, missedGoals } from './report/table.ts';
import { summarize, type CaseSamples, type CaseSummary } from './summary.ts';

const WARMUP_SECONDS = 1.5;

const rounds = number('BENCH_ROUNDS', ROUNDS_DEFAULT);
const duration = { seconds: number('BENCH_SECONDS', 3), warmupSeconds: WARMUP_SECONDS };
const cases = chosen();
const started = new Date();
const folder = join(ROOT, 'bench/results');
const file = join(folder, started.toISOString().replaceAll(/[:.]/g, '-'));
mkdirSync(folder, { recursive: true });

const about = machine(started);
const note = (line: object): void => appendFileSync(`${file}.ndjson`, `${JSON.stringify(line)}\n`);
note({ kind: 'machine', ...about });

const bench = await Bench.create(duration);
const summaries: CaseSummary[] = [];
for (const benchCase of cases) {
  const summary = summarize(await runCase(benchCase));
  if (summaries.length === 0) printTwoNumbers(summary);
  summaries.push(summary);
  process.stdout.write(caseTable(summary));
  note({ kind: 'summary', ...summary });
  process.stdout.write(`  ${publish(benchCase, summary)}\n`);
}
process.stdout.write(`\n${file}.ndjson\n`);
const chart = costChart(readMeasurements());
if (chart !== undefined) writeFileSync(join(ROOT, '.github/images/cost.svg'), chart);
process.exit(ended());

/** Replaces the published figures of a case that ran completely. Returns a line about it. */
function publish(benchCase: BenchCase, summary: CaseSummary): string {
  const [{ name }, wanted] = [benchCase, roundsWanted(benchCase)];
  const run = Math.min(...summary.labels.map((label) => label.rounds));
  const figures = figuresOf(summary);
  if (run < wanted) return `not published: ${run} of ${wanted} rounds`;
  if (list('BENCH_LABELS').length > 0) return 'not published: some labels only';
  if (typeof figures === 'string') return `not published: ${figures}`;
  record(name, { ...about, command: `BENCH_CASES=${name} make bench`, rounds: run, figures });
  return 'published in bench/figures.json';
}

/** Prints the missed goals, and returns the exit code. */
function ended(): number {
  const goals = summaries.flatMap(({ comparisons }) => comparisons).filter(({ limit }) => limit !== undefined);
  const missed = missedGoals(summaries);
  const open = goals.filter(({ verdict }) => verdict !== 'reached' && verdict !== 'missed').length;
  if (missed.length > 0) process.stdout.write(`\nmissed goals:\n${missed.map((line) => `  ${line}\n`).join('')}`);
  else process.stdout.write(`\n${goals.length - open} of ${goals.length} goals reached, ${open} without a verdict\n`);
  return missed.length > 0 ? 1 : open > 0 ? 3 : 0;
}

async function runCase(benchCase: BenchCase): Promise<CaseSamples> {
  const runs = (await benchCase.runs(bench)).filter(({ labels }) => labels.some(isChosen));
  const samples = new Map<string, Sample[]>(runs.flatMap(({ labels }) => labels).map((label) => [label, []]));
  const caseRounds = Math.min(rounds, benchCase.roundsMax ?? rounds);
  for (let round = 0; round < caseRounds; round += 1) {
    for (const run of round % 2 === 0 ? runs : [...runs].reverse()) {
      const step = `${benchCase.name} ${round + 1}/${caseRounds}: ${run.labels.join(', ')}`;
      progress(step);
      let found = await execute(benchCase, round, run);
      // A pause on a shared machine can void a run, so a void run is repeated once.
      const reason = found.find((sample) => sample.void !== undefined)?.void;
      if (reason !== undefined) {
        progress(`${step}, again (${reason})`);
        found = await execute(benchCase, round, run);
      }
      for (const sample of found) samples.get(sample.label)?.push(sample);
    }
  }
  return { benchCase, samples };
}

/** If a run throws, its samples are void and the other runs continue. */
async function execute(benchCase: BenchCase, round: number, run: Run): Promise<readonly Sample[]> {
  const found = await run.execute().catch((cause: unknown) => {
    const reason = cause instanceof Error ? cause.message : String(cause);
    return run.labels.map((label) => ({ label, figures: {}, statuses: {}, void: reason }));
  });
  for (const sample of found) note({ kind: 'sample', case: benchCase.name, round, ...sample });
  return found;
}

function printTwoNumbers({ labels }: CaseSummary): void {
  const gateway = labels.find(({ label }) => label === 'gateway')?.figures;
  if (gateway === undefined) return;
  process.stdout.write(
    `${written('ratePerS', gateway.ratePerS?.median)} accepted ` +
      `events/s\n${written('p99Ms', gateway.p99Ms?.median)} ms p99\n`,
  );
}

function number(name: string, otherwise: number): number {
  const text = process.env[name];
  if (text === undefined || text === '') return otherwise;
  const value = Number(text);
  if (value > 0) return value;
  process.stderr.write(`bench: ${name}=${text}: expected a number greater than 0\n`);
  process.exit(2);
}

function list(name: string): readonly string[] {
  return (process.env[name] ?? '').split(',').filter((item) => item !== '');
}

function isChosen(label: string): boolean {
  const beginnings = list('BENCH_LABELS');
  return beginnings.length === 0 || beginnings.some((beginning) => label.startsWith(beginning));
}

function chosen(): readonly BenchCase[] {
  const names = list('BENCH_CASES');
  const unknown = names.filter((name) => !CASES.some((one) => one.name === name));
  if (unknown.length > 0) {
    process.stderr.write(
      `bench: no case ${unknown.join(', ')}; there are ${CASES.map(({ name }) => name).join(', ')}\n`,
    );
    process.exit(2);
  }
  return names.length === 0 ? CASES : CASES.filter(({ name }) => names.includes(name));
}
