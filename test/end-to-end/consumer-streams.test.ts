import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openLink } from '../support/link.ts';
import { Program } from '../support/program.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

const uriOf = (even: number, odd: number): string => `dispatcher://127.0.0.1:${even},127.0.0.1:${odd}`;

function consumerOf(uri: string, warehouse: string, env: Readonly<Record<string, string>> = {}): Program {
  const consumer = new Program('ingest-consumer', {
    env: { INGEST_QUEUE_URI: uri, INGEST_WAREHOUSE_URI: warehouse, INGEST_CONSUMER_ADDR: '127.0.0.1:0', ...env },
  });
  atEnd(() => consumer.kill());
  return consumer;
}

const put = (redis: TestRedis, stream: string, id: string): Promise<unknown> =>
  redis.command('XADD', stream, '*', 'producer', 'p', 'body', `{"id":"${id}","type":"t"}`);

const health = async (url: string): Promise<unknown> => (await fetch(`${url}/health/ready`)).json();
function assertAway(readiness: unknown, partition: number): void {
  const { reasons, ...rest } = readiness as { readonly reasons: Readonly<Record<string, string>> };
  assert.deepEqual(rest, { status: 'ready', unavailable: [partition] });
  assert.ok((reasons[partition] ?? '').length > 0);
}
const hasSample = async (url: string, sample: string): Promise<boolean> =>
  (await (await fetch(`${url}/metrics`)).text()).split('\n').includes(sample);

describe('a consumer of two streams', { concurrency: true }, () => {
  it('lands one while the other is down, names that one, and lands both once it is back', async () => {
    const [even, odd] = await Promise.all([TestRedis.start(), TestRedis.start()]);
    await odd.signal('SIGKILL');
    const store = sqliteStore();
    const consumer = consumerOf(uriOf(even.port, odd.port), store.uri);
    const url = await consumer.listening();
    await put(even, 'ingest-a', 'one');
    await eventually('it lands', async () => (await store.count()) === 1);
    assertAway(await health(url), 1);
    await consumer.line(/"partition":1,.*ECONNREFUSED/);
    assert.ok(await hasSample(url, 'ingest_queue_up{partition="0"} 1'));
    assert.ok(await hasSample(url, 'ingest_queue_up{partition="1"} 0'));
    assert.ok(await hasSample(url, 'ingest_queue_available 1'));
    assert.ok(await hasSample(url, 'ingest_consumer_ready 1'));
    await odd.start();
    await put(odd, 'ingest-b', 'two');
    await eventually('it lands too', async () => (await store.count()) === 2);
    await eventually('both are read', async () => JSON.stringify(await health(url)) === '{"status":"ready"}');
    await even.signal('SIGKILL');
    await eventually('it is known', async () => JSON.stringify(await health(url)).includes('"unavailable":[0]'));
    await consumer.line(/"partition":0,.*ECONNREFUSED/);
    await put(odd, 'ingest-b', 'three');
    await eventually('the other one lands', async () => (await store.count()) === 3);
    await odd.signal('SIGKILL');
    await eventually('neither lands', async () => (await fetch(`${url}/health/ready`)).status === 503);
  });

  it('exits with 5 if one stream has the maximum of consumers, and with 4 if both are down', async () => {
    const odd = await TestRedis.start();
    const store = sqliteStore();
    const [nobody, another] = [await freePort(), await freePort()];
    const down = consumerOf(uriOf(nobody, another), store.uri);
    // Nothing listens on the first port, so this consumer reads only the second stream.
    await consumerOf(uriOf(nobody, odd.port), store.uri).listening();
    const second = consumerOf(uriOf(nobody, odd.port), store.uri, { INGEST_CONSUMER_REPLICAS_MAX: '1' });
    assert.equal(await second.ended, 5, second.output);
    assert.match(second.output, /INGEST_CONSUMER_REPLICAS_MAX=1/);
    assert.equal(await down.ended, 4, down.output);
  });

  it('does not read a stream that is full when it becomes reachable, until a place is free', async () => {
    const [even, odd] = await Promise.all([TestRedis.start(), TestRedis.start()]);
    const link = await openLink({ host: '127.0.0.1', port: odd.port });
    atEnd(() => link.close());
    link.cut();
    const store = sqliteStore();
    const consumer = consumerOf(uriOf(even.port, link.port), store.uri, { INGEST_CONSUMER_REPLICAS_MAX: '1' });
    const url = await consumer.listening();
    // Another consumer holds the only place until its heartbeats stop.
    const heartbeat = (): Promise<unknown> => odd.command('ZADD', '{ingest-b}:replicas', String(Date.now()), 'other');
    await heartbeat();
    const heartbeats = setInterval(() => void heartbeat().catch(() => undefined), 300);
    atEnd(() => clearInterval(heartbeats));
    link.mend();
    await put(odd, 'ingest-b', 'late');
    await consumer.line(/the stream is not read: INGEST_CONSUMER_REPLICAS_MAX other consumers read it/);
    await eventually('the metric shows it', async () =>
      hasSample(url, 'ingest_consumer_replicas_full{partition="1"} 1'),
    );
    assert.ok(await hasSample(url, 'ingest_consumer_replicas_full{partition="0"} 0'));
    assert.ok(await hasSample(url, 'ingest_consumer_replicas 1'));
    assertAway(await health(url), 1);
    assert.equal(await store.count(), 0);
    clearInterval(heartbeats);
    await eventually('it is read', async () => (await store.count()) === 1);
    await eventually('the metric is 0', async () => hasSample(url, 'ingest_consumer_replicas_full{partition="1"} 0'));
  });
});
