import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Registry } from 'prom-client';
import type { Clock } from '../../lib/process/clock.ts';
import { processRegistry } from '../../lib/telemetry/process-registry.ts';
import { Stalls } from '../../lib/telemetry/stalls.ts';
import { eventually } from '../support/scope.ts';
import { Scrape } from '../support/scrape.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const { clock } = SYSTEM;

/** Blocks this process, as a long garbage collection does. */
function stall(ms: number): void {
  for (const until = clock.ms() + ms; clock.ms() < until;);
}

it('a process that stands still counts its pauses, and takes the beginning of one for the arrival of what it reads after it', async () => {
  const registry = processRegistry();
  const turnEnds: (() => void)[] = [];
  const stalls = new Stalls(registry, { ...clock, turnEnd: (run) => void turnEnds.push(run) });
  const scraped = async (...names: readonly string[]): Promise<readonly number[]> => {
    const scrape = new Scrape(await registry.metrics());
    return names.map((name) => scrape.sum(name, {}));
  };
  const counted = () => scraped(...['count', 'sum'].map((name) => `ingest_process_stall_seconds_${name}`));
  stalls.arrivedMs();
  // The second pause begins when the timer has recovered from the first.
  for (const pauses of [1, 2]) {
    const [before = 0, beforeS = 0] = await counted();
    const beganMs = clock.ms();
    stall(400);
    const waitedMs = clock.ms() - stalls.arrivedMs();
    assert.ok(waitedMs > 300, `pause ${pauses}: ${waitedMs} ms`);
    // The timer may run before sockets are read, whose requests arrived in the pause.
    const end = await eventually('the timer has run', () => turnEnds.shift());
    assert.ok(stalls.arrivedMs() < beganMs + 100, `pause ${pauses}: ${stalls.arrivedMs() - beganMs} ms`);
    end();
    assert.ok(clock.ms() - stalls.arrivedMs() < 100);
    const [after = 0, afterS = 0] = await counted();
    assert.ok(after > before && afterS - beforeS > 0.3, `${after - before} pauses, ${afterS - beforeS} s`);
    const scrape = new Scrape(await registry.metrics());
    assert.equal(scrape.sum('ingest_process_stall_seconds_bucket', { le: '10' }), after, 'in seconds');
  }
  const LAG = 'nodejs_eventloop_lag_max_seconds';
  stall(400);
  await eventually('the turn is measured', async () => ((await scraped(LAG))[0] ?? 0) > 0.3);
  // Each scrape is about the time since the last one.
  await eventually('it was one turn', async () => ((await scraped(LAG))[0] ?? 1) < 0.3);
});

it('a timer that is late by less than 100 ms is no pause', async () => {
  const registry = new Registry();
  const virtual = new VirtualClock();
  let lateMs = 0;
  const late: Clock = Object.assign(Object.create(virtual) as Clock, {
    ms: () => virtual.ms() + lateMs,
    after: (ms: number, run: () => void) => virtual.after(ms, run),
    turnEnd: (run: () => void) => virtual.turnEnd(run),
  });
  new Stalls(registry, late);
  for (const [moreMs, pauses] of [
    [99, 0],
    [100, 1],
  ] as const) {
    lateMs += moreMs;
    await virtual.advance(2_000);
    assert.equal(new Scrape(await registry.metrics()).sum('ingest_process_stall_seconds_count'), pauses);
  }
});
