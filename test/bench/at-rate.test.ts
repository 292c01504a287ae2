import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { it } from 'node:test';
import { atRate } from '../../bench/at-rate.ts';
import { BenchEnvironment } from '../../bench/bench-environment.ts';
import { PacedLoad } from '../../bench/load/paced-load.ts';
import type { LoadResult } from '../../bench/load/options.ts';
import { CANONICAL_CONNECTIONS } from '../../bench/load/workload.ts';
import { FLOOR, withServer, type Subject } from '../../bench/subjects.ts';

const environment = await BenchEnvironment.create();
const { cert, key, client } = environment.certificates;
const RATE_PER_S = 200;

/** Stops the server's process during the measured part of 2 s. */
const stopped = (fromMs: number, untilMs: number): Promise<LoadResult> =>
  withServer(environment, FLOOR, async ({ port, pid }) => {
    const options = { ...client, port, connections: 10, bodyBytes: 300, ratePerS: RATE_PER_S };
    const load = await PacedLoad.open({ ...options, warmupMs: 300, durationMs: 2_000 });
    const timers: NodeJS.Timeout[] = [];
    const warm = (): void => {
      timers.push(setTimeout(() => process.kill(pid, 'SIGSTOP'), fromMs));
      timers.push(setTimeout(() => process.kill(pid, 'SIGCONT'), untilMs));
    };
    const result = await load.run({ warm, done: () => undefined });
    for (const timer of timers) clearTimeout(timer);
    process.kill(pid, 'SIGCONT');
    return result;
  });

it('a server that stands still is charged with each request that was due', async () => {
  const { latency, offered, elapsedMs, statuses } = await stopped(200, 900);
  assert.ok(latency.p99 > 500 && latency.max > 600, `${latency.p99} ms, ${latency.max} ms`);
  assert.ok(offered > 0.95 * RATE_PER_S * (elapsedMs / 1_000), `${offered} in ${elapsedMs} ms`);
  assert.deepEqual(Object.keys(statuses), ['202']);
});

it('a request without an answer is charged with its age', async () => {
  const { latency } = await stopped(1_000, 4_000);
  assert.ok(latency.p99 > 500 && latency.max > 800, `${latency.p99} ms, ${latency.max} ms`);
});

const served = (name: string, prepare: (server: Server) => void): Subject => ({
  name,
  start: async () => {
    const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) });
    prepare(server);
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    return {
      ...{ name, pid: process.pid, port: (server.address() as AddressInfo).port, printed: () => 0 },
      stop: async () => void server.close(),
    };
  },
});

const answering = (status: (count: number) => number) => (server: Server) => {
  let count = 0;
  server.on('request', (_request, response: ServerResponse) => {
    count += 1;
    response.writeHead(status(count), { 'Content-Length': 0 }).end();
  });
};

const refusing = served(
  'refusing',
  answering((count) => (count % 3 === 0 ? 503 : 202)),
);

/** Listens no longer after the connections of the load at full speed. */
const closing = served('closing', (server) => {
  answering(() => 202)(server);
  let connections = 0;
  server.on('connection', () => (connections += 1) === CANONICAL_CONNECTIONS && server.close());
});

it('servers under the same load have their own failures', async () => {
  const duration = { fullSpeedSeconds: 4, warmupSeconds: 0.3, seconds: 1 };
  const { lanes, foreignShare } = await atRate(environment, [FLOOR, refusing, closing], RATE_PER_S, duration);
  const [fine, refused, dead] = lanes;
  assert.ok(fine !== undefined && refused !== undefined && dead !== undefined && foreignShare >= 0);
  assert.equal(fine.failure, undefined);
  assert.ok(fine.p99Ms > 0 && fine.totalUs > 0 && fine.fullSpeedPerS > 0, JSON.stringify(fine));
  assert.match(refused.failure ?? '', /^\d+ answers 503, \d+ answers 503$/);
  assert.ok(/ECONNREFUSED/.test(dead.failure ?? '') && !(dead.p99Ms < 200), JSON.stringify(dead));
});
