import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { OtlpReceiver } from '../support/otlp-receiver.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

const run = (env: Readonly<Record<string, string>>): Program => new Program('ingest-consumer', { env });

describe('ingest-consumer', () => {
  it('reports all problems of the configuration together and exits with 2', async () => {
    const program = run({ INGEST_QUEUE_URI: 'http://user:secret@queue', INGEST_CONSUMER_BATCH_MAX: '0' });
    assert.equal(await program.ended, 2);
    for (const key of ['QUEUE_URI', 'WAREHOUSE_URI', 'CONSUMER_BATCH_MAX'])
      assert.match(program.output, new RegExp(`"level":"fatal".*"msg":"INGEST_${key}\\b.*expected`, 'm'));
    assert.ok(!program.output.includes('secret'), 'the password is masked');
  });

  it('serves its process endpoints, reports a queue that refuses reads, and drains after SIGTERM', async (t) => {
    const [redis, store] = [await TestRedis.start(['--appendonly', 'no']), sqliteStore()];
    const [spans, schemas] = [await OtlpReceiver.start(), temporaryFolder()];
    writeFileSync(join(schemas, 'broken.json'), '{');
    const env = { INGEST_QUEUE_URI: redis.uri, INGEST_WAREHOUSE_URI: store.uri, INGEST_CONSUMER_ADDR: '127.0.0.1:0' };
    const program = run({ ...env, INGEST_SCHEMAS_DIR: schemas, OTEL_EXPORTER_OTLP_ENDPOINT: spans.url });
    t.after(() => program.kill());
    const url = await program.listening();
    const ready = async (): Promise<readonly unknown[]> => {
      const response = await fetch(`${url}/health/ready`);
      return [response.status, (await response.json()) as unknown];
    };
    const metrics = async (): Promise<string> => (await fetch(`${url}/metrics`)).text();
    const live = await fetch(`${url}/health/live`, { headers: { 'X-Request-Id': 'mine' } });
    assert.deepEqual([live.status, live.headers.get('x-request-id')], [200, 'mine']);
    assert.equal((await fetch(`${url}/events`)).status, 404);
    const posted = await fetch(`${url}/metrics`, { method: 'POST' });
    assert.deepEqual([posted.status, posted.headers.get('allow')], [405, 'GET, HEAD']);
    const reports = (queue: 0 | 1): Promise<unknown> =>
      eventually(`its queue is ${queue === 1 ? 'there' : 'away'}`, async () => {
        const text = await metrics();
        const names = ['ingest_consumer_ready', 'ingest_queue_available', 'ingest_queue_up{partition="0"}'];
        const [status] = await ready();
        return names.every((name) => text.includes(`\n${name} ${queue}\n`)) && status === (queue === 1 ? 200 : 503);
      });
    await reports(1);
    assert.deepEqual(await ready(), [200, { status: 'ready' }]);
    await redis.command('ACL', 'SETUSER', 'default', '-xreadgroup');
    await reports(0);
    await redis.command('ACL', 'SETUSER', 'default', '+xreadgroup');
    await reports(1);
    const text = await eventually('the queue was looked at', async () => {
      const some = await metrics();
      return /^ingest_queue_lag_events /m.test(some) && some;
    });
    for (const name of [
      'ingest_landed_total 0',
      'ingest_consumer_duplicates_total 0',
      'ingest_quarantined_total{reason="invalid_event"} 0',
      'ingest_landing_delay_seconds_count 0',
      'ingest_queue_lag_events 0',
      'ingest_queue_oldest_unlanded_seconds 0',
      'ingest_schema_types_unusable 1',
    ])
      assert.ok(text.includes(`\n${name}\n`), name);

    const address = new URL(url).host;
    const second = run({ ...env, INGEST_CONSUMER_ADDR: address });
    assert.equal(await second.ended, 3, 'its address is in use');
    assert.match(second.output, new RegExp(`INGEST_CONSUMER_ADDR=${address}: .*EADDRINUSE`));
    assert.equal(await redis.command('ZCARD', '{ingest}:replicas'), 1, 'its place among the replicas is free');

    const other = new DatabaseSync(store.uri.slice('sqlite:'.length));
    other.exec('BEGIN IMMEDIATE');
    const traced = ['traceparent', '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'];
    await redis.command('XADD', 'ingest', '*', 'producer', 'shop', 'body', '{"id":"held","type":"t"}', ...traced);
    const pending = async (): Promise<unknown> =>
      ((await redis.command('XPENDING', 'ingest', 'warehouse')) as unknown[])[0];
    await eventually('it holds the event', async () => (await pending()) === 1);
    program.signal('SIGTERM');
    await eventually('it is draining', async () => (await ready())[0] === 503);
    assert.deepEqual(await ready(), [503, { status: 'draining' }]);
    assert.match(await metrics(), /^ingest_consumer_ready 0$/m);
    other.exec('COMMIT');
    other.close();
    assert.equal(await program.ended, 0, program.output);
    assert.deepEqual([await store.count(), await pending()], [1, 0]);
    assert.deepEqual(
      spans.spans.map(({ name }) => name),
      ['process ingest'],
      'the last span is exported',
    );
    assert.deepEqual(await redis.command('XINFO', 'CONSUMERS', 'ingest', 'warehouse'), []);
    assert.equal(await redis.command('ZCARD', '{ingest}:replicas'), 0);
  });

  it('ends within its drain timeout even if the queue does not answer', { tags: ['long'] }, async (t) => {
    const [redis, store] = [await TestRedis.start(), sqliteStore()];
    const env = { INGEST_QUEUE_URI: redis.uri, INGEST_WAREHOUSE_URI: store.uri, INGEST_CONSUMER_ADDR: '127.0.0.1:0' };
    const program = run({ ...env, INGEST_DRAIN_TIMEOUT_MS: '300' });
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
