import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { describe, it } from 'node:test';
import { BenchEnvironment, type RunningServer } from '../../bench/bench-environment.ts';
import { beside, type SidePlan } from '../../bench/beside.ts';
import { SwitchedLoad } from '../../bench/load/switched-load.ts';
import { CpuBook } from '../../bench/process-cost.ts';
import { FLOOR, FLOOR_WITH_REDIS } from '../../bench/subjects.ts';

const SHORT = { warmupSeconds: 0.05, seconds: 0.1 };

const environment = await BenchEnvironment.create();
const { cert, key, client } = environment.certificates;

async function answering(status: number): Promise<RunningServer> {
  const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (_request, response) =>
    response.writeHead(status, { 'Content-Length': 0 }).end(),
  );
  // On a busy machine, a connection may be idle between two slices for longer than the default of 5 s.
  server.keepAliveTimeout = 0;
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  return {
    ...{ name: 'answering', pid: process.pid, port: (server.address() as AddressInfo).port, printed: () => 0 },
    stop: () => new Promise((closed) => void server.close(() => closed())),
  };
}

/** Wraps `start` so that `running` contains `label` while the server runs. */
function noted(label: string, start: SidePlan['subject']['start']): { plan: SidePlan; running: Set<string> } {
  const running = new Set<string>();
  const noting: SidePlan['subject']['start'] = async (...given) => {
    const server = await start(...given);
    running.add(label);
    return {
      ...server,
      stop: async () => {
        await server.stop();
        running.delete(label);
      },
    };
  };
  return { plan: { label, subject: { name: label, start: noting } }, running };
}

describe('servers measured side by side', () => {
  it('have slices with the CPU time of their own processes', async () => {
    const plans = [
      { label: 'one', subject: FLOOR_WITH_REDIS },
      { label: 'other', subject: FLOOR },
    ];
    const { pairs, foreignShare } = await beside(environment, plans, [{ of: 'one', against: 'other' }], SHORT);
    assert.ok(foreignShare >= 0);
    assert.deepEqual(
      pairs.map(({ labels, slices: { of, against } }) => ({ labels, slices: [of.length, against.length] })),
      [{ labels: { of: 'one', against: 'other' }, slices: [2, 2] }],
    );
    for (const { events, figures } of pairs[0]?.slices.of ?? []) {
      assert.ok(events > 0);
      assert.ok((figures['serverUs'] ?? 0) > 0 && (figures['ratePerS'] ?? 0) > 0);
      assert.ok((figures['totalUs'] ?? 0) > (figures['serverUs'] ?? 0));
    }
    assert.deepEqual(Object.keys(pairs[0]?.slices.against[0]?.figures ?? {}).sort(), [
      ...['heapBytes', 'ratePerS', 'redisUs', 'serverUs', 'totalUs'],
    ]);
  });

  it('end if one of them does not answer 202, or cannot start', async () => {
    const refusing = noted('refusing', () => answering(503));
    const failing: SidePlan = {
      label: 'failing',
      subject: { name: 'failing', start: () => Promise.reject(new Error('does not start')) },
    };
    await assert.rejects(beside(environment, [refusing.plan], [], SHORT), /an answer 503/);
    assert.equal(refusing.running.size, 0);
    await assert.rejects(beside(environment, [refusing.plan, failing], [], SHORT), /does not start/);
    assert.equal(refusing.running.size, 0);
  });
});

describe('a load that is switched on and off', () => {
  it('rejects every slice after a broken connection, without waiting', async () => {
    const server = await answering(202);
    const load = await SwitchedLoad.open({
      ...client,
      ...{ port: server.port, connections: 1, depth: 1, bodyBytes: 300 },
    });
    try {
      assert.ok((await load.run(10)) > 0);
    } finally {
      load.close();
      await server.stop();
    }
    for (const run of ['the first', 'the next']) await assert.rejects(load.run(10), /a broken connection/, run);
  });
});

it('the CPU time of a child that has exited is not that of other processes', () => {
  const before = new CpuBook();
  execFileSync(process.execPath, ['--eval', 'while (process.cpuUsage().user < 400_000);']);
  const after = new CpuBook();
  assert.ok(after.seconds(process.pid) - before.seconds(process.pid) >= 0.4);
});
