// Runs ingest-send with a file of events at several depths of pipelining. The reference sends one event at a time on
// each of 16 connections.
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { BenchCase } from '../bench-case.ts';
import type { Bench } from '../bench.ts';
import { NODE, ROOT } from '../bench-environment.ts';
import { bodySource, CANONICAL_BODY_BYTES } from '../load/workload.ts';
import { runOf, type Figures, type Sample } from '../measure.ts';
import { costFigures, CpuBook } from '../process-cost.ts';
import { GATEWAY, withServer } from '../subjects.ts';

const EVENTS = 100_000;

const DEPTHS: Readonly<Record<string, readonly string[]>> = {
  reference: ['--pipelining', '1', '--concurrency', '16'],
  'depth 1': ['--pipelining', '1', '--concurrency', '64'],
  'depth 4': ['--pipelining', '4', '--connections', '4'],
  'depth 16': [],
  'depth 32': ['--pipelining', '32', '--concurrency', '128'],
};

export const sender: BenchCase = {
  name: 'sender',
  aim: `Rate of ingest-send with a file of ${EVENTS.toLocaleString('en-US')} events, and CPU time of the gateway.`,
  roundsMax: 3,
  comparisons: [
    { metric: 'ratePerS', of: 'depth 16', limit: { atLeast: 20_000 } },
    { metric: 'serverUs', of: 'depth 16', limit: { atMost: 20 } },
    { metric: 'ratePerS', of: 'depth 16', against: 'reference' },
    { metric: 'serverUs', of: 'depth 16', against: 'reference' },
  ],
  runs: (bench) => Object.entries(DEPTHS).map(([label, args]) => runOf(label, () => sendFile(bench, label, args))),
};

async function sendFile(bench: Bench, label: string, args: readonly string[]): Promise<Sample> {
  const file = join(bench.environment.folder, 'events.ndjson');
  const nextBody = bodySource({ bodyBytes: CANONICAL_BODY_BYTES });
  writeFileSync(file, Array.from({ length: EVENTS }, () => `${nextBody()}\n`).join(''));
  return withServer(bench.environment, GATEWAY, async (gateway, redis) => {
    const send = (count: readonly string[]): Promise<Figures> => summaryOf(bench, gateway.port, [...args, ...count]);
    await send(['--sample', '20000']);
    const before = new CpuBook();
    const { accepted = 0, eventsPerS = 0, p50Ms = 0, p99Ms = 0, retries = 0 } = await send([file]);
    const costs = costFigures(before, new CpuBook(), gateway.pid, redis.pid, EVENTS);
    const missed = accepted === EVENTS && retries === 0 ? undefined : `${accepted} accepted, ${retries} retries`;
    return {
      label,
      figures: { ratePerS: eventsPerS, p50Ms, p99Ms, ...costs },
      statuses: { 202: accepted },
      ...(missed === undefined ? {} : { void: missed }),
    };
  });
}

async function summaryOf(bench: Bench, port: number, args: readonly string[]): Promise<Figures> {
  const { caPath, certPath, keyPath } = bench.environment.certificates.client;
  const program = ['--disable-warning=ExperimentalWarning', join(ROOT, 'bin/ingest-send.ts'), '--quiet', '--json'];
  const to = ['--url', `https://127.0.0.1:${port}`, '--ca', caPath, '--cert', certPath, '--key', keyPath];
  const refused = ['--refused', join(bench.environment.folder, `refused-${Math.random()}`)];
  const { stdout } = await promisify(execFile)(NODE, [...program, ...to, ...refused, ...args]);
  return JSON.parse(stdout) as Figures;
}
