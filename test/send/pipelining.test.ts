import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Connections } from '../../lib/send/connections.ts';
import { sendEvents, type SendEventsOptions, type SendResult } from '../../lib/send/client.ts';
import { GENEROUS_MS } from '../support/deadline.ts';
import { eventually, everyOf } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { accepted, problem, serve, type AnyServer, type Seen } from './server.ts';

type Outcome = SendResult<{ id: string; type: string }>;

async function send(
  server: AnyServer,
  count: number,
  options: Partial<SendEventsOptions> = {},
  data = '',
): Promise<Outcome[]> {
  const events = Array.from({ length: count }, (_, at) => ({ id: `e-${at}`, type: 't', data }));
  const all = { ...server.options, connections: 1, timeoutMs: GENEROUS_MS, ...options };
  return everyOf(sendEvents(events, all));
}

function triesOf(results: readonly Outcome[]): Map<string, number> {
  for (const { kind, event } of results) assert.equal(kind, 'accepted', event.id);
  return new Map(results.map(({ event, tries }) => [event.id, tries]));
}

/** Asserts that the first try of only these events failed. */
function assertFailed(results: readonly Outcome[], ...ids: readonly string[]): void {
  const failed = [...triesOf(results)].filter(([, count]) => count > 1);
  assert.equal(failed.join(), ids.map((id) => `${id},2`).join());
}

describe('a sender with pipelining', () => {
  it('has connections x pipelining events in flight, limited by concurrency, and one write for a turn', async () => {
    for (const [options, inFlight, connections] of [
      [{ connections: undefined }, 64, 4],
      [{ connections: 2, pipelining: 8 }, 16, 2],
      [{ connections: undefined, concurrency: 5 }, 5, 4],
      [{ connections: undefined, concurrency: 12, pipelining: 1 }, 12, 12],
      [{ connections: 1, pipelining: 32 }, 32, 1],
    ] as const) {
      const waiting: Seen[] = [];
      const server = await serve((seen) => {
        waiting.push(seen);
        if (waiting.length === inFlight) for (const one of waiting.splice(0)) one.socket.write(accepted(one));
      });
      assert.equal(triesOf(await send(server, inFlight * 3, options)).size, inFlight * 3);
      assert.equal(server.connections, connections, JSON.stringify(options));
      assert.equal(server.requestsInRead, Math.ceil(inFlight / connections), JSON.stringify(options));
    }
  });

  it('fails one event of a lost connection, and sends those after it again in the same try', async () => {
    let cut = 0;
    const server = await serve((seen) => {
      if (seen.id !== 'e-3' || (cut += 1) > 1) return seen.socket.write(accepted(seen));
      seen.socket.write(accepted(seen).slice(0, -5));
      return seen.socket.end();
    });
    assertFailed(await send(server, 16), 'e-3');
  });

  for (const [what, first] of [
    ['two lengths', 'HTTP/1.1 202 X\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}'],
    ['an answer for another id', accepted({ id: 'e-9' })],
    ['an answer for another request', problem({ requestId: 'another' } as Seen, { code: 'A', retryable: false }, 400)],
  ] as const)
    it(`closes the connection after ${what}, and all events are accepted in the end`, async () => {
      const server = await serve((seen) => {
        server.answer = (one) => one.socket.write(accepted(one));
        seen.socket.write(first);
      });
      const tries = triesOf(await send(server, 16));
      assert.deepEqual([tries.get('e-0'), tries.get('e-1')], [2, 1]);
      assert.ok(server.connections >= 2);
    });

  it('accepts an answer with Connection: close, and sends later events on another connection', async () => {
    const server = await serve((seen) => {
      if (seen.socket.writableEnded) return;
      if (seen.id !== 'e-2') return seen.socket.write(accepted(seen));
      server.requestsInRead = 0;
      return seen.socket.end(accepted(seen, 'Connection: close\r\n'));
    });
    assertFailed(await send(server, 16));
    assert.deepEqual([server.connections, server.requestsInRead], [2, 1], 'one at a time');
  });

  it('delays events after an unanswered one by at most its time limit', async () => {
    const server = await serve((seen) => {
      // Answers on a connection are in order, so nothing can be answered after an unanswered event.
      if (seen.id === 'e-0') seen.socket.removeAllListeners('data');
      else seen.socket.write(accepted(seen));
    });
    const startMs = performance.now();
    const results = await send(server, 16, { timeoutMs: 700, tries: 1 });
    const slow = results.find(({ event }) => event.id === 'e-0');
    assert.ok(slow?.kind === 'refused' && slow.code === 'NO_ANSWER');
    assertFailed(results.filter((result) => result !== slow));
    assert.ok(performance.now() - startMs < 700 + GENEROUS_MS);
  });

  /** Sends three events, which have a second each, to a server that does not answer. */
  async function sendThree(count: number) {
    const [server, clock] = [await serve(), new VirtualClock()];
    const { url, ...identity } = server.options;
    const limits = { connections: count, pipelining: 3, timeoutMs: 1_000 };
    const connections = new Connections({ ...identity, ...limits, url: new URL(url), clock, random: SYSTEM.random });
    const settled: string[] = [];
    for (const id of ['first', 'second', 'third']) {
      const body = Buffer.from(JSON.stringify({ id, type: 't' }));
      void connections.send({ body, encoded: body, fields: '' }).then(() => settled.push(id));
    }
    return { server, clock, connections, settled };
  }

  it('ends an event that waits for room at its time limit', async () => {
    const { server, clock, connections, settled } = await sendThree(1);
    await eventually('all are on one connection', () => server.seen.length === 3);
    server.seen[0]?.socket.destroy();
    await eventually('the second is sent again, and the third waits for it', () => server.seen.length === 4);
    await clock.advance(1_000);
    await eventually('all have ended', () => settled.length === 3);
    assert.equal(server.seen.length, 4);
    connections.close();
  });

  it('gives an event one more time limit, however often connections fail before its answer', async () => {
    const { server, clock, connections, settled } = await sendThree(2);
    await eventually('two are on one connection', () => server.seen.length === 3);
    await clock.advance(500);
    server.seen.find(({ id }) => id === 'first')?.socket.destroy();
    await eventually('the third follows the second', () => server.seen.length === 4);
    await clock.advance(500);
    await eventually('the third is alone', () => server.seen.length === 5);
    assert.deepEqual(settled, ['first', 'second']);
    await clock.advance(500);
    assert.deepEqual(settled, ['first', 'second', 'third']);
    connections.close();
  });

  it('sends one request at a time for a while after a failed connection', async () => {
    const counts: number[] = [];
    const open: Seen[] = [];
    const server = await serve(({ socket }) => {
      server.answer = (seen) => {
        counts.push(open.push(seen));
        setImmediate(() => {
          open.splice(open.indexOf(seen), 1);
          seen.socket.write(accepted(seen));
        });
      };
      socket.end();
    });
    assert.equal(triesOf(await send(server, 100)).size, 100);
    assert.deepEqual([Math.max(...counts.slice(0, 32)), Math.max(...counts) > 1], [1, true]);
  });

  it('keeps the connection if the first of several long events is refused while it writes the others', async () => {
    const server = await serve((seen) => {
      server.answer = (one) => one.socket.write(accepted(one));
      seen.socket.write(problem(seen, { code: 'QUEUE_OVERLOADED', retryable: true }));
    });
    assertFailed(await send(server, 16, {}, 'x'.repeat(500_000)), 'e-0');
    assert.deepEqual([server.connections, server.seen.length], [1, 17]);
  });
});
