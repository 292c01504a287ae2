// test/redis/stream-queue.test.ts measures the delays in virtual time.
import assert from 'node:assert/strict';
import { before, describe, it, type TestContext } from 'node:test';
import { event, TestGateway } from '../support/gateway.ts';
import { Load } from '../support/load.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis, freePort } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { assertAlive, assertProblem } from '../support/verdicts.ts';

/** This timeout is shorter than a producer waits, but long enough for a healthy queue on a busy machine. */
const ENQUEUE_TIMEOUT = { INGEST_ENQUEUE_TIMEOUT_MS: '1000' };

let pki: Pki;
let producer: ClientCertificate;

before(async () => {
  pki = await Pki.create();
  producer = await pki.producer('one');
});

interface Outage {
  readonly begin: (redis: TestRedis) => Promise<unknown>;
  readonly end: (redis: TestRedis) => Promise<unknown>;
  readonly reason: RegExp;
  readonly readable?: boolean;
  readonly forgets?: boolean;
}

async function readinessAfter(gateway: TestGateway, status: number, reason?: RegExp): Promise<number> {
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

async function entriesBehind(redis: TestRedis, load: Load): Promise<void> {
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

function describeOutages(outages: Readonly<Record<string, Outage>>, tags: string[] = []): void {
  describe('a queue that is', { tags }, () => {
    for (const [name, one] of Object.entries(outages))
      it(`${name}: answers 503, changes readiness both ways, and loses no accepted event`, (t) => outage(t, one));
  });
}

describeOutages({
  killed: { begin: (redis) => redis.signal('SIGKILL'), end: (redis) => redis.start(), reason: /ECONNREFUSED|closed/ },
});

describe('a queue that', () => {
  it(
    "is frozen while 200 clients keep sending does not exhaust the gateway's memory",
    { tags: ['long'] },
    async (t) => {
      const redis = await TestRedis.start();
      // On a busy machine, 200 simultaneous handshakes may take longer than the default time limit.
      const gateway = await TestGateway.start(redis, pki, {
        INGEST_REQUEST_TIMEOUT_MS: '120000',
        INGEST_DRAIN_TIMEOUT_MS: '120000',
      });
      const load = new Load(gateway.client(producer), 'many', 200);
      const residentMiB = async (): Promise<number> =>
        (await gateway.metric('process_resident_memory_bytes')) / 2 ** 20;
      await load.more(4_000);
      const before = await residentMiB();
      await redis.signal('SIGSTOP');
      await readinessAfter(gateway, 503);
      await load.more(4_000);
      const early = await residentMiB();
      await load.more(8_000);
      const late = await residentMiB();
      await redis.signal('SIGCONT');
      await readinessAfter(gateway, 200);
      await load.more(1_000);
      await load.stop();
      t.diagnostic(
        `resident: ${Math.round(before)} MiB before, ${Math.round(early)} early and ${Math.round(late)} late in the outage; slowest answer ${Math.round(load.slowestMs)} ms`,
      );
      assert.ok(late < before + 100, `${before} MiB before, ${late} MiB late`);
      assert.deepEqual(load.errors, []);
      assert.deepEqual(load.statuses, [202, 503]);
      await entriesBehind(redis, load);
      assert.equal(await gateway.metric('ingest_events_in_flight'), 0);
      await assertAlive(gateway);
    },
  );
});

const LONG_LOAD = ['--key-load-delay', '1000', '--loading-process-events-interval-bytes', '1024'];

describeOutages(
  {
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
          /aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0/.test(
            String(await redis.command('INFO', 'persistence')),
          ),
        );
        await redis.signal('SIGTERM');
        redis.launch(LONG_LOAD);
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
  },
  ['long'],
);
