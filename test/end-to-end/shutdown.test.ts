import assert from 'node:assert/strict';
import { it } from 'node:test';
import { GENEROUS_MS } from '../support/deadline.ts';
import { queueAndProducer } from '../support/file-gateway.ts';
import { event, TestGateway } from '../support/gateway.ts';
import { Load } from '../support/load.ts';
import { eventually } from '../support/scope.ts';
import { assertNoBugs } from '../support/verdicts.ts';
import { askRaw, postText, replies, requestText } from '../support/wire.ts';

const { redis, pki, producer } = await queueAndProducer();

async function assertExits(gateway: TestGateway, code = 0): Promise<void> {
  assert.deepEqual(await gateway.exited(), { code, signal: null }, gateway.output);
  assertNoBugs(gateway);
}

it('SIGTERM under load loses no event and resets no request, reports draining, closes idle connections, and waits', async () => {
  const gateway = await TestGateway.start(redis, pki);
  const before = await redis.length();
  const [idle, silent, slow] = await Promise.all([1, 2, 3].map(() => gateway.socket(producer)));
  assert.ok(idle !== undefined && silent !== undefined && slow !== undefined);
  assert.equal((await askRaw(idle, postText(event('idle')))).status, 202);
  const text = postText(event('slow'));
  slow.write(text.slice(0, -5));
  const load = new Load(gateway.client(producer), 'stopping', 32);
  await load.more(500);
  gateway.signal('SIGTERM');
  const draining = await eventually('it says so', async () => {
    const answer = await askRaw(await gateway.socket(), requestText('GET /health/ready'));
    return answer.status !== 200 && answer;
  });
  const { status, body, headers } = draining;
  assert.deepEqual([status, body, headers['connection']], [503, '{"status":"draining"}', 'close']);
  await Promise.all([idle.untilClosed(), silent.untilClosed()]);
  assert.equal(gateway.child.exitCode, null);
  slow.write(text.slice(-5));
  assert.equal((await replies(slow, 1))[0]?.status, 202);
  await assertExits(gateway);
  assert.equal(idle.error, undefined);
  await load.stop();
  assert.deepEqual(load.statuses, [202]);
  // New connections fail after the gateway has stopped listening, but no request that was sent may fail.
  assert.deepEqual(
    load.errors.filter(({ sent }) => sent),
    [],
  );
  assert.equal(await redis.length(), before + load.accepted.size + 2);
});

it('connections are accepted during the delay, and a second signal ends the process with the code of that signal', async () => {
  const drain = { INGEST_DRAIN_TIMEOUT_MS: '120000', INGEST_DRAIN_DELAY_MS: '100000' };
  const gateway = await TestGateway.start(redis, pki, drain);
  const half = await gateway.socket(producer);
  half.write(requestText('POST /events', ['Content-Type: application/json', 'Content-Length: 100'], '{'));
  await eventually('it is in flight', async () => (await gateway.metric('ingest_events_in_flight')) === 1);
  gateway.signal('SIGTERM');
  await gateway.line(/"stopping"/);
  const { body } = await askRaw(await gateway.socket(), requestText('GET /health/ready'));
  assert.equal(body, '{"status":"draining"}');
  const start = performance.now();
  gateway.signal('SIGINT');
  await assertExits(gateway, 130);
  assert.ok(performance.now() - start < GENEROUS_MS, 'before the drain timeout');
});
