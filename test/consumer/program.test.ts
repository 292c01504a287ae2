import assert from 'node:assert/strict';
import { createServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { DatabaseSync } from 'node:sqlite';
import { before, describe, it } from 'node:test';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

const run = (env: Readonly<Record<string, string>>, ...args: string[]): Program =>
  new Program('ingest-consumer', { env, args });

describe('ingest-consumer, before it starts', () => {
  it('reports all problems of the configuration together and exits with 2', async () => {
    const program = run({
      INGEST_QUEUE_URI: 'http://user:secret@queue',
      INGEST_CONSUMER_ADDR: '9464',
      INGEST_CONSUMER_BATCH_MAX: '0',
      INGEST_CONSUMER_REPLICAS_MAX: 'six',
      INGEST_LOG_LEVEL: 'loud',
      INGEST_CONSUMER_BATCH_MX: '1',
    });
    assert.equal(await program.ended, 2);
    const output = program.output;
    for (const key of [
      'QUEUE_URI',
      'WAREHOUSE_URI',
      'CONSUMER_ADDR',
      'CONSUMER_BATCH_MAX',
      'CONSUMER_REPLICAS_MAX',
      'LOG_LEVEL',
    ]) {
      assert.match(output, new RegExp(`"level":"fatal".*"msg":"INGEST_${key}\\b.*expected`, 'm'));
    }
    assert.match(output, /INGEST_CONSUMER_BATCH_MX is not a known key; the nearest one is INGEST_CONSUMER_BATCH_MAX/);
    assert.ok(!output.includes('secret'), 'the password is masked');
  });
});

describe('ingest-consumer', () => {
  let redis: TestRedis;
  const store = sqliteStore();
  before(async () => {
    redis = await TestRedis.start(['--appendonly', 'no']);
  });
  const environment = (): Record<string, string> => ({
    INGEST_QUEUE_URI: redis.uri,
    INGEST_WAREHOUSE_URI: store.uri,
    INGEST_CONSUMER_ADDR: '127.0.0.1:0',
  });

  it('exits with 3 if its address is in use', async (t) => {
    const owner = createServer().listen(0, '127.0.0.1');
    t.after(() => owner.close());
    await once(owner, 'listening');
    const address = `127.0.0.1:${(owner.address() as AddressInfo).port}`;
    const program = run({ ...environment(), INGEST_CONSUMER_ADDR: address });
    assert.equal(await program.ended, 3);
    assert.match(program.output, new RegExp(`INGEST_CONSUMER_ADDR=${address}: .*EADDRINUSE`));
    assert.equal(await redis.command('ZCARD', '{ingest}:replicas'), 0, 'its place among the replicas is free');
  });

  it('serves its process endpoints, exits with 0 after SIGTERM, and leaves the consumer group', async (t) => {
    const program = run(environment());
    t.after(() => program.kill());
    const url = await program.listening();
    const live = await fetch(`${url}/health/live`, { headers: { 'X-Request-Id': 'mine' } });
    assert.deepEqual([live.status, live.headers.get('x-request-id')], [200, 'mine']);
    const ready = await eventually('it is ready', async () => {
      const response = await fetch(`${url}/health/ready`);
      return response.status === 200 && response.json();
    });
    assert.deepEqual(ready, { status: 'ready' });
    assert.equal((await fetch(`${url}/events`)).status, 404);
    const posted = await fetch(`${url}/metrics`, { method: 'POST' });
    assert.deepEqual([posted.status, posted.headers.get('allow')], [405, 'GET, HEAD']);

    const metrics = await eventually('the queue was looked at', async () => {
      const text = await (await fetch(`${url}/metrics`)).text();
      return /^ingest_queue_lag_events /m.test(text) ? text : undefined;
    });
    for (const name of [
      'ingest_landed_total 0',
      'ingest_consumer_duplicates_total 0',
      'ingest_quarantined_total{reason="invalid_event"} 0',
      'ingest_landing_delay_seconds_count 0',
      'ingest_queue_lag_events 0',
      'ingest_queue_oldest_unlanded_seconds 0',
    ]) {
      assert.ok(metrics.includes(`\n${name}\n`), name);
    }
    program.signal('SIGTERM');
    assert.equal(await program.ended, 0, program.output);
    assert.deepEqual(await redis.command('XINFO', 'CONSUMERS', 'ingest', 'warehouse'), []);
    assert.equal(await redis.command('ZCARD', '{ingest}:replicas'), 0);
  });

  it('lands and acknowledges what it holds after SIGTERM, and answers its probes until then', async (t) => {
    const [queue, rows] = [await TestRedis.start(['--appendonly', 'no']), sqliteStore()];
    const env = { ...environment(), INGEST_QUEUE_URI: queue.uri, INGEST_WAREHOUSE_URI: rows.uri };
    const program = run(env);
    t.after(() => program.kill());
    const url = await program.listening();
    await eventually('it is ready', async () => (await fetch(`${url}/health/ready`)).status === 200);
    const other = new DatabaseSync(rows.uri.slice('sqlite:'.length));
    other.exec('BEGIN IMMEDIATE');
    await queue.command('XADD', 'ingest', '*', 'producer', 'shop', 'body', '{"id":"held","type":"t"}');
    const pending = async (): Promise<unknown> =>
      ((await queue.command('XPENDING', 'ingest', 'warehouse')) as unknown[])[0];
    await eventually('it holds the event', async () => (await pending()) === 1);
    program.signal('SIGTERM');
    const draining = await eventually('it is draining', async () => {
      const response = await fetch(`${url}/health/ready`);
      return response.status === 503 && response.json();
    });
    assert.deepEqual(draining, { status: 'draining' });
    other.exec('COMMIT');
    other.close();
    assert.equal(await program.ended, 0, program.output);
    assert.deepEqual([await rows.count(), await pending()], [1, 0]);
    assert.deepEqual(await queue.command('XINFO', 'CONSUMERS', 'ingest', 'warehouse'), []);
  });

  it('reports a queue that refuses reads as unavailable, in readiness and metrics', async (t) => {
    const refusing = await TestRedis.start(['--appendonly', 'no']);
    const program = run({ ...environment(), INGEST_QUEUE_URI: refusing.uri });
    t.after(() => program.kill());
    const url = await program.listening();
    const tells = async (value: 0 | 1): Promise<boolean> => {
      const metrics = await (await fetch(`${url}/metrics`)).text();
      const names = ['ingest_queue_available', 'ingest_queue_up{partition="0"}'];
      const { status } = await fetch(`${url}/health/ready`);
      return names.every((name) => metrics.includes(`\n${name} ${value}\n`)) && status === (value === 1 ? 200 : 503);
    };
    await eventually('it is read', () => tells(1));
    await refusing.command('ACL', 'SETUSER', 'default', '-xreadgroup');
    await eventually('it is unavailable', () => tells(0));
    await refusing.command('ACL', 'SETUSER', 'default', '+xreadgroup');
    await eventually('it is back', () => tells(1));
  });

  it('ends within its drain timeout even if the queue does not answer', { tags: ['long'] }, async (t) => {
    const program = run({ ...environment(), INGEST_DRAIN_TIMEOUT_MS: '300' });
    t.after(() => program.kill());
    await program.listening();
    await redis.signal('SIGSTOP');
    try {
      program.signal('SIGINT');
      assert.equal(await program.ended, 0, program.output);
      assert.match(program.output, /drain timeout/);
    } finally {
      await redis.signal('SIGCONT');
    }
  });
});
