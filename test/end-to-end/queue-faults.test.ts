// test/redis has the delays in virtual time.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { event, TestGateway } from '../support/gateway.ts';
import { Load } from '../support/load.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { assertAlive, assertProblem } from '../support/verdicts.ts';

/** This timeout is shorter than a producer waits, but long enough for a healthy queue on a busy machine. */
const ENQUEUE_TIMEOUT = { INGEST_ENQUEUE_TIMEOUT_MS: '1000' };

const pki = await Pki.create();
const producer = await pki.producer('one');

interface Outage {
  readonly begin: (redis: TestRedis) => Promise<unknown>;
  readonly end: (redis: TestRedis) => Promise<unknown>;
  readonly reason: RegExp;
  readonly readable?: boolean;
}

const becomesReady = (gateway: TestGateway, status: 200 | 503, reason = /./): Promise<unknown> =>
  eventually(`readiness is ${status}`, async () => {
    const reply = await gateway.client().ask({ path: '/health/ready' });
    return reply.status === status && reason.test(status === 200 ? '-' : String(reply.json?.['reason']));
  });

async function assertOnStream(redis: TestRedis, accepted: Iterable<string>): Promise<void> {
  const bodies = new Set((await redis.entries()).map(({ fields }) => fields['body']));
  assert.deepEqual(
    [...accepted].filter((id) => !bodies.has(event(id))),
    [],
    'answered 202 and not on the stream',
  );
}

async function outage({ begin, end, reason, readable = false }: Outage): Promise<void> {
  const redis = await TestRedis.start();
  const gateway = await TestGateway.start(redis, pki, ENQUEUE_TIMEOUT);
  const load = new Load(gateway.client(producer), 'outage', 8, 10);
  await load.more(40);
  assert.deepEqual(load.statuses, [202]);

  await begin(redis);
  await becomesReady(gateway, 503, reason);
  const client = gateway.client(producer);
  assertProblem(await client.post(event('refused')), 503, 'QUEUE_UNAVAILABLE');
  if (readable) assertProblem(await client.find('refused'), 404, 'EVENT_NOT_FOUND');
  else assertProblem(await client.find('refused'), 503, 'LOOKUP_UNAVAILABLE');
  assert.equal((await client.ask({ path: '/health/live' })).status, 200);

  await end(redis);
  await becomesReady(gateway, 200);
  await eventually('events are taken', async () => (await client.post(event('back'))).status === 202);
  await load.more(40);
  await load.stop();
  assert.deepEqual([load.errors, load.statuses], [[], [202, 503]]);
  await assertOnStream(redis, load.accepted);
  await assertAlive(gateway);
}

const OUTAGES: Readonly<Record<string, Outage>> = {
  killed: { begin: (redis) => redis.signal('SIGKILL'), end: (redis) => redis.start(), reason: /ECONNREFUSED|closed/ },
  frozen: {
    begin: (redis) => redis.signal('SIGSTOP'),
    end: (redis) => redis.signal('SIGCONT'),
    reason: /no answer|does not answer/,
  },
  full: {
    begin: (redis) => redis.command('CONFIG', 'SET', 'maxmemory', '1'),
    end: (redis) => redis.command('CONFIG', 'SET', 'maxmemory', '0'),
    reason: /^OOM/,
    readable: true,
  },
};

describe('a queue that is', () => {
  for (const [name, one] of Object.entries(OUTAGES))
    it(
      `${name}: answers 503, changes readiness both ways, and loses no accepted event`,
      { tags: name === 'killed' ? [] : ['long'] },
      () => outage(one),
    );
});
