// test/redis has the delays in virtual time.
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { event, TestGateway } from '../support/gateway.ts';
import { Load } from '../support/load.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis, freePort } from '../support/redis.ts';
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
  readonly forgets?: boolean;
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

async function outage({ begin, end, reason, readable = false, forgets = false }: Outage): Promise<void> {
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
  await assertOnStream(redis, forgets ? [...load.accepted].slice(-20) : load.accepted);
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
  'a read-only replica': {
    begin: async (redis) => redis.command('REPLICAOF', '127.0.0.1', String(await freePort())),
    end: (redis) => redis.command('REPLICAOF', 'NO', 'ONE'),
    // A replica may lack recent events, so the gateway does not ask it and returns no false 404.
    reason: /^READONLY/,
  },
  loading: {
    begin: async (redis) => {
      await redis.command('EVAL', "for n = 1, 2000 do redis.call('SET', 'filler:' .. n, n) end", '0');
      await redis.command('BGREWRITEAOF');
      await eventually('the file is rewritten', async () =>
        /aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0/.test(String(await redis.command('INFO', 'persistence'))),
      );
      await redis.signal('SIGTERM');
      redis.launch(['--key-load-delay', '1000', '--loading-process-events-interval-bytes', '1024']);
    },
    end: (redis) => eventually('Redis has loaded', async () => (await redis.command('PING')) === 'PONG'),
    reason: /^LOADING/,
  },
  'back without its data': {
    begin: (redis) => redis.signal('SIGKILL'),
    end: (redis) => redis.start(['--appendonly', 'no']),
    reason: /ECONNREFUSED|closed/,
    forgets: true,
  },
};

describe('a queue that is', () => {
  for (const [name, one] of Object.entries(OUTAGES))
    it(
      `${name}: answers 503, changes readiness both ways, and loses no accepted event`,
      { tags: name === 'killed' ? [] : ['long'] },
      () => outage(one),
    );

  it("frozen while 200 clients keep sending does not exhaust the gateway's memory", { tags: ['long'] }, inMemory);
});

async function inMemory(t: TestContext): Promise<void> {
  const redis = await TestRedis.start();
  // On a busy machine, 200 simultaneous handshakes may take longer than the default time limit.
  const env = { INGEST_REQUEST_TIMEOUT_MS: '120000', INGEST_DRAIN_TIMEOUT_MS: '120000' };
  const gateway = await TestGateway.start(redis, pki, env);
  const load = new Load(gateway.client(producer), 'many', 200);
  const residentMiB = async (): Promise<number> => (await gateway.metric('process_resident_memory_bytes')) / 2 ** 20;
  await load.more(4_000);
  const before = await residentMiB();
  await redis.signal('SIGSTOP');
  await becomesReady(gateway, 503);
  await load.more(12_000);
  const late = await residentMiB();
  await redis.signal('SIGCONT');
  await becomesReady(gateway, 200);
  await load.more(1_000);
  await load.stop();
  t.diagnostic(`resident: ${before.toFixed()} MiB before, ${late.toFixed()} late in the outage`);
  assert.ok(late < before + 100, `${before} MiB before, ${late} MiB late`);
  assert.deepEqual([load.errors, load.statuses], [[], [202, 503]]);
  await assertOnStream(redis, load.accepted);
  assert.equal(await gateway.metric('ingest_events_in_flight'), 0);
  await assertAlive(gateway);
}
