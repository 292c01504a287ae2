import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { queueAndProducer } from '../support/file-gateway.ts';
import { WITHIN_MS } from '../support/deadline.ts';
import { event, TestGateway } from '../support/gateway.ts';
import { Load } from '../support/load.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { assertNoBugs } from '../support/verdicts.ts';
import { askRaw, postText, replies, requestText } from '../support/wire.ts';

const { redis, pki, producer } = await queueAndProducer();

async function assertCleanExit(gateway: TestGateway): Promise<void> {
  assert.deepEqual(await gateway.exited(), { code: 0, signal: null }, gateway.output);
  assertNoBugs(gateway);
}

describe('SIGTERM', () => {
  it('under load resets no request and loses no accepted event', async (t) => {
    const gateway = await TestGateway.start(redis, pki);
    const before = await redis.length();
    const load = new Load(gateway.client(producer), 'stopping', 32);
    await load.more(500);
    const start = performance.now();
    gateway.signal('SIGTERM');
    await assertCleanExit(gateway);
    t.diagnostic(`stopped after ${Math.round(performance.now() - start)} ms with ${load.accepted.length} events`);
    await load.stop();
    assert.deepEqual(load.statuses, [202]);
    // New connections fail after the gateway has stopped listening, but no request that was sent may fail.
    assert.deepEqual(
      load.errors.filter(({ sent }) => sent),
      [],
    );
    assert.equal(await redis.length(), before + load.accepted.length);
  });

  it(
    'answers all requests that arrived before it, in order, and closes the connection',
    { tags: ['long'] },
    async () => {
      // With a shorter timeout, the requests would be answered before the test sees them in flight.
      const gateway = await TestGateway.start(redis, pki);
      const connection = await gateway.socket(producer);
      await askRaw(connection, postText(event('pipelined')));
      await redis.signal('SIGSTOP');
      connection.write(
        ['a', 'b', 'c'].map((name) => postText(event(`pipelined-${name}`), [`X-Request-Id: ${name}`])).join(''),
      );
      await eventually('they are in flight', async () => (await gateway.metric('ingest_events_in_flight')) === 3);
      gateway.signal('SIGTERM');
      await gateway.line(/"stopping"/);
      await redis.signal('SIGCONT');
      const all = (await replies(connection, 4)).slice(1);
      assert.deepEqual(
        all.map(({ headers }) => headers['x-request-id']),
        ['a', 'b', 'c'],
      );
      for (const { status } of all) assert.ok(status === 202 || status === 503);
      assert.equal(all.at(-1)?.headers['connection'], 'close');
      await assertCleanExit(gateway);
    },
  );

  it('makes readiness report draining, closes idle connections, and waits for a request in flight', async () => {
    const gateway = await TestGateway.start(redis, pki);
    const [idle, silent, slow] = [
      await gateway.socket(producer),
      await gateway.socket(producer),
      await gateway.socket(producer),
    ];
    assert.equal((await askRaw(idle, postText(event('idle')))).status, 202);
    const body = event('slow');
    slow.write(
      `POST /events HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 5)}`,
    );
    const probe = async () => askRaw(await gateway.socket(), requestText('GET /health/ready'));
    assert.equal((await probe()).status, 200);
    gateway.signal('SIGTERM');
    const draining = await eventually('it says so', async () => {
      const answer = await probe();
      return answer.status !== 200 && answer;
    });
    assert.deepEqual(
      [draining.status, draining.body, draining.headers['connection']],
      [503, '{"status":"draining"}', 'close'],
    );
    await Promise.all([idle.untilClosed(), silent.untilClosed()]);
    assert.equal(gateway.child.exitCode, null);
    slow.write(body.slice(5));
    assert.equal((await replies(slow, 1))[0]?.status, 202);
    await assertCleanExit(gateway);
    assert.equal(idle.error, undefined);
  });

  it('waits for a half-sent request no longer than the drain timeout', { tags: ['long'] }, async () => {
    const gateway = await TestGateway.start(redis, pki, {
      INGEST_ENQUEUE_TIMEOUT_MS: '500',
      INGEST_DRAIN_TIMEOUT_MS: '1000',
    });
    const half = await gateway.socket(producer);
    half.write('POST /events HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{');
    await eventually('it is in flight', async () => (await gateway.metric('ingest_events_in_flight')) === 1);
    const start = performance.now();
    gateway.signal('SIGTERM');
    assert.deepEqual(await gateway.exited(), { code: 1, signal: null }, gateway.output);
    assert.ok(performance.now() - start > 500, 'not at once');
    assert.match(gateway.output, /drain timeout has passed: 1 requests were cut off/);
  });

  it('ends in time while the queue is frozen, and answers 503', { tags: ['long'] }, async () => {
    const own = await TestRedis.start();
    const gateway = await TestGateway.start(own, pki, {
      INGEST_ENQUEUE_TIMEOUT_MS: '500',
      INGEST_DRAIN_TIMEOUT_MS: '120000',
    });
    const connection = await gateway.socket(producer);
    assert.equal((await askRaw(connection, postText(event('before')))).status, 202);
    await own.signal('SIGSTOP');
    connection.write(postText(event('frozen')));
    const start = performance.now();
    gateway.signal('SIGTERM');
    assert.equal((await replies(connection, 2))[1]?.status, 503);
    await assertCleanExit(gateway);
    assert.ok(performance.now() - start < WITHIN_MS, 'a frozen queue held it up');
  });
});

it('a second signal ends the process immediately with the code of that signal', async () => {
  const gateway = await TestGateway.start(redis, pki, { INGEST_DRAIN_TIMEOUT_MS: '120000' });
  const half = await gateway.socket(producer);
  half.write('POST /events HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{');
  await eventually('it is in flight', async () => (await gateway.metric('ingest_events_in_flight')) === 1);
  gateway.signal('SIGTERM');
  await gateway.line(/"stopping"/);
  const start = performance.now();
  gateway.signal('SIGINT');
  assert.deepEqual(await gateway.exited(), { code: 130, signal: null });
  assert.ok(performance.now() - start < WITHIN_MS, 'before the drain timeout');
  assertNoBugs(gateway);
});
