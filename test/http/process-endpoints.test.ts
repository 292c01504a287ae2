import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { before, describe, it } from 'node:test';
import {
  atIntervals,
  createProcessEndpoints,
  processRoutes,
  type ProcessState,
} from '../../lib/http/process-endpoints.ts';
import { problem } from '../../lib/ingest/errors.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { repliesIn, requestText, type WireReply } from '../support/wire.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

let port: number;
let isDraining = false;
let metrics: ProcessState['metrics'] = () =>
  new Promise((resolve) => setImmediate(resolve, { status: 200, contentType: 'text/plain', body: 'some_total 1\n' }));

before(async () => {
  const endpoints = createProcessEndpoints(
    {
      draining: () => isDraining,
      unready: () => undefined,
      unavailable: () => new Map(),
      metrics: () => metrics(),
    },
    problem,
    SYSTEM,
  );
  ({ port } = await endpoints.listen({ host: '127.0.0.1', port: 0 }));
  atEnd(() => endpoints.close());
});

async function answersTo(text: string): Promise<WireReply[]> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  atEnd(() => void socket.destroy());
  let received = '';
  socket.setEncoding('latin1').on('data', (part: string) => (received += part));
  socket.write(text, 'latin1');
  await once(socket, 'end', { signal: AbortSignal.timeout(20_000) });
  socket.end();
  return repliesIn(received);
}

function assertLast(reply: WireReply | undefined, status: number, code: string): void {
  assert.equal(reply?.status, status, JSON.stringify(reply));
  assert.equal(reply.headers['content-type'], 'application/problem+json');
  assert.equal(reply.headers['connection'], 'close');
  assert.ok(reply.headers['x-request-id']);
  const { type, title, detail, ...rest } = JSON.parse(reply.body) as Record<string, unknown>;
  assert.equal(type, `urn:ingest:error:${code}`);
  for (const text of [title, detail]) assert.ok(typeof text === 'string' && text !== '', reply.body);
  assert.deepEqual(rest, { status, code, retryable: false });
}

describe('the address of the process endpoints', () => {
  const cases: Readonly<Record<string, readonly [text: string, status: number, code: string]>> = {
    'no HTTP': ['garbage\r\n\r\n', 400, 'INVALID_EVENT'],
    'much that is no HTTP': ['garbage\r\n\r\n'.repeat(300_000), 400, 'INVALID_EVENT'],
    'a field name with a space': [requestText('GET /metrics', ['Bad Name: x']), 400, 'INVALID_EVENT'],
    'no Host': ['GET /metrics HTTP/1.1\r\n\r\n', 400, 'INVALID_EVENT'],
    'two Host fields': [requestText('GET /metrics', ['Host: a', 'Host: b']), 400, 'INVALID_EVENT'],
    'a head over the limit': [requestText('GET /metrics', [`X: ${'x'.repeat(20_000)}`]), 431, 'HEADERS_TOO_LARGE'],
    'a tunnel': ['CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n', 404, 'ROUTE_NOT_FOUND'],
  };
  it('answers what cannot be read with a complete problem, and closes', async () => {
    for (const [name, [text, status, code]] of Object.entries(cases)) {
      const answers = await answersTo(text);
      assert.equal(answers.length, 1, name);
      assertLast(answers[0], status, code);
    }
  });

  it('answers an unknown path or method with a complete problem and the caller’s request id', async () => {
    for (const [line, status, code, allow] of [
      ['GET /', 404, 'ROUTE_NOT_FOUND', undefined],
      ['POST /metrics', 405, 'METHOD_NOT_ALLOWED', 'GET, HEAD'],
    ] as const) {
      const [reply] = await answersTo(requestText(line, ['X-Request-Id: mine', 'Connection: close']));
      assertLast(reply, status, code);
      assert.equal(reply?.headers['x-request-id'], 'mine');
      assert.equal(reply.headers['allow'], allow);
    }
  });
});

describe('a process', () => {
  const asked = async (given: Partial<ProcessState>, path = '/health/ready'): Promise<readonly unknown[]> => {
    const state = { draining: () => false, unready: () => undefined, unavailable: () => new Map(), metrics, ...given };
    const answer = await processRoutes(state, SYSTEM.clock)
      .find(({ name }) => name === path)
      ?.methods.get('GET')?.();
    assert.equal(answer?.contentType, 'application/json');
    return [answer.status, JSON.parse(String(answer.body)) as unknown];
  };

  it('reports that it is ready, the unavailable parts of its queue, or the reason why it is not ready', async () => {
    assert.deepEqual(await asked({}), [200, { status: 'ready' }]);
    const parts = { unavailable: [1, 3], reasons: { '1': 'full', '3': 'frozen' } };
    const reasons = new Map([
      [1, 'full'],
      [3, 'frozen'],
    ]);
    assert.deepEqual(await asked({ unavailable: () => reasons }), [200, { status: 'ready', ...parts }]);
    const unready = { unready: () => 'the queue is unavailable' };
    const both = { ...unready, unavailable: () => reasons };
    assert.deepEqual(await asked(both), [503, { status: 'unavailable', reason: 'the queue is unavailable', ...parts }]);
    assert.deepEqual(await asked(unready), [503, { status: 'unavailable', reason: 'the queue is unavailable' }]);
    assert.deepEqual(await asked({ ...unready, draining: () => true }), [503, { status: 'draining' }]);
    assert.deepEqual(await asked(unready, '/health/live'), [200, { status: 'live' }]);
  });

  it('answers all scrapes that wait with the same metrics, which are made after they have arrived', async () => {
    const clock = new VirtualClock();
    const made: PromiseWithResolvers<string>[] = [];
    const scrape = atIntervals(() => (made[made.length] = Promise.withResolvers<string>()).promise, clock);
    const first = scrape();
    await clock.advance(0);
    const later = [scrape(), scrape()];
    made[0]?.resolve('early');
    await clock.advance(200);
    made[1]?.resolve('late');
    assert.deepEqual(await Promise.all([first, ...later]), ['early', 'late', 'late']);
  });

  it('answers 500 if its metrics cannot be read, and 200 as soon as they can be read again', async () => {
    const working = metrics;
    const scraped = async () => (await answersTo(requestText('GET /metrics', ['Connection: close'])))[0];
    metrics = () => Promise.reject(new Error('a secret'));
    const failed = await scraped();
    metrics = working;
    assert.equal(failed?.status, 500);
    assert.doesNotMatch(failed.body, /a secret/);
    assert.deepEqual(
      [await scraped(), await scraped()].map((one) => [one?.status, one?.body]),
      [
        [200, 'some_total 1\n'],
        [200, 'some_total 1\n'],
      ],
    );
  });

  it('ends each connection after its answer while it drains', async (t) => {
    t.after(() => void (isDraining = false));
    isDraining = true;
    const [reply] = await answersTo(requestText('GET /health/ready'));
    assert.equal(reply?.headers['connection'], 'close');
    assert.equal(reply.status, 503);
  });
});

it('connections that fill the address of the process endpoints give way to a new one, the longest quiet first, so that a probe always gets in', async () => {
  const open = async (): Promise<Socket> => {
    const socket = connect({ port, host: '127.0.0.1' }).on('error', () => undefined);
    atEnd(() => void socket.destroy());
    await once(socket, 'connect');
    return socket.resume();
  };
  const asking = await open();
  const silent: Socket[] = [];
  for (let at = 0; at < 200; at += 1) silent.push(await open());
  asking.write('GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n');
  await once(asking, 'data');
  for (let at = 0; at < 150; at += 1) silent.push(await open());
  const response = await fetch(`http://127.0.0.1:${port}/health/live`);
  assert.equal(response.status, 200);
  await eventually('those that came first are closed', () => silent.slice(0, 95).every(({ closed }) => closed));
  assert.equal(silent.at(-1)?.closed, false);
  assert.equal(asking.closed, false);
});
