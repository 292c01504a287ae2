// The queue goes away in every way it can, under load, and comes back: answers stay true, readiness follows, the process
// stays. How soon is held in virtual time by redis/stream-queue.test.ts.
import assert from 'node:assert/strict';
import { before, describe, it, type TestContext } from 'node:test';
import { event, TestGateway } from '../support/gateway.ts';
import { Load } from '../support/load.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { assertAlive, assertProblem } from '../support/verdicts.ts';

/** Short of what a producer waits for, and enough on a busy machine for a queue that is there. */
const ENQUEUE_TIMEOUT = { INGEST_ENQUEUE_TIMEOUT_MS: '1000' };

export let pki: Pki;
export let producer: ClientCertificate;

before(async () => {
  pki = await Pki.create();
  producer = await pki.producer('one');
});

export interface Outage {
  readonly begin: (redis: TestRedis) => Promise<unknown>;
  readonly end: (redis: TestRedis) => Promise<unknown>;
  /** What readiness gives as the reason. */
  readonly reason: RegExp;
  /** What can be read still is: an unknown id is told as such. */
  readonly readable?: boolean;
  /** The queue comes back without what it had. */
  readonly forgets?: boolean;
}

export async function readinessAfter(gateway: TestGateway, status: number, reason?: RegExp): Promise<number> {
  const start = performance.now();
  const client = gateway.client();
  await eventually(`readiness is ${status}`, async () => {
    const reply = await client.ask({ path: '/health/ready' });
    if (reply.status !== status) return false;
    if (reason === undefined || reason.test(String(reply.json?.['reason']))) return true;
    throw new Error(reply.body);
  });
  client.close();
  return performance.now() - start;
}

export async function entriesBehind(redis: TestRedis, load: Load): Promise<void> {
  const there = new Set(
    (await redis.entries()).map(({ fields }) => (JSON.parse(fields['body'] ?? '{}') as { id: string }).id),
  );
  assert.deepEqual(
    load.accepted.filter((id) => !there.has(id)),
    [],
    'answered 202 and not on the stream',
  );
}

async function outage(
  t: TestContext,
  { begin, end, reason, readable = false, forgets = false }: Outage,
): Promise<void> {
  const redis = await TestRedis.start();
  const gateway = await TestGateway.start(redis, pki, ENQUEUE_TIMEOUT);
  const load = new Load(gateway.client(producer), 'outage', 8, 10);
  await load.more(40);
  const accepted = load.accepted.length;
  assert.deepEqual(load.statuses, [202]);

  await begin(redis);
  const goneMs = await readinessAfter(gateway, 503, reason);
  const client = gateway.client(producer);
  for (let at = 0; at < 5; at += 1) {
    assertProblem(await client.post(event(`refused-${at}`)), 503, 'QUEUE_UNAVAILABLE');
    const found = await client.find(`refused-${at}`);
    if (readable) assertProblem(found, 404, 'EVENT_NOT_FOUND');
    else assertProblem(found, 503, 'LOOKUP_UNAVAILABLE');
  }
  assert.equal((await client.ask({ path: '/health/live' })).status, 200);

  await end(redis);
  const backMs = await readinessAfter(gateway, 200);
  const start = performance.now();
  await eventually('events are taken', async () => (await client.post(event('back'))).status === 202);
  t.diagnostic(
    `not ready after ${Math.round(goneMs)} ms, ready again after ${Math.round(backMs)} ms, taking events ${Math.round(performance.now() - start)} ms later`,
  );
  await load.more(40);
  await load.stop();

  assert.deepEqual(load.errors, []);
  assert.deepEqual(load.statuses, [202, 503]);
  if (forgets) load.accepted.splice(0, load.accepted.length - 20);
  else assert.ok(load.accepted.length > accepted);
  await entriesBehind(redis, load);
  await assertAlive(gateway);
}

export function describeOutages(outages: Readonly<Record<string, Outage>>): void {
  describe('a queue that is', () => {
    for (const [name, one] of Object.entries(outages))
      it(`${name}: 503, readiness both ways, nothing promised in vain`, (t) => outage(t, one));
  });
}
