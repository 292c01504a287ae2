// Settings do what the README says they do, seen from outside; the others are in settings-effect.test.ts.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { describe, it } from 'node:test';
import { event, PATIENT, TestClient, TestGateway } from '../support/gateway.ts';
import { Program } from '../support/program.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { assertProblem } from '../support/verdicts.ts';
import { sqliteStore } from '../support/warehouse-store.ts';
import { askRaw, postText } from '../support/wire.ts';
import { body, chunked, hold, max, pki, producer, redis, startBounded } from './settings-effect.ts';

describe('INGEST_IN_FLIGHT_BYTES_MAX', () => {
  it('is all free again after bodies of any kind and end', async () => {
    const gateway = await startBounded();
    await hold(gateway, 1);
    const ends: Readonly<Record<string, string>> = {
      'a chunked event': chunked(body('chunked', 900)),
      'a chunked event again': chunked(body('chunked', 900)),
      'an event': postText(body('announced', 900)),
      'a chunked body that is no event': chunked('x'.repeat(900)),
      'a body that is no event': postText('x'.repeat(900)),
    };
    for (let round = 0; round < 12; round += 1) {
      for (const [name, text] of Object.entries(ends)) {
        const connection = await gateway.socket(producer);
        const { status } = await askRaw(connection, text);
        assert.equal(status, name.endsWith('no event') ? 400 : 202, name);
        connection.socket.destroy();
      }
      for (const part of [postText('', ['Content-Length: 900']), chunked(body('cut', 900)).slice(0, -200)]) {
        const cut = await gateway.socket(producer);
        cut.write(part);
        await eventually('it is in flight', async () => (await gateway.metric('ingest_events_in_flight')) === 2);
        cut.socket.destroy();
        await eventually('it is not', async () => (await gateway.metric('ingest_events_in_flight')) === 1);
      }
    }
    const client = gateway.client(producer);
    assert.equal((await client.post(body('all-of-it', max - 1))).status, 202);
    assertProblem(await client.post(body('one-more', max)), 503, 'QUEUE_OVERLOADED');
  });
});

describe('INGEST_QUEUE_REPLICAS', () => {
  it('is how many replicas must have an event: with fewer of them none is accepted', async () => {
    const [queue, replica] = await Promise.all([
      TestRedis.start(['--repl-diskless-sync-delay', '0']),
      TestRedis.start(),
    ]);
    await replica.command('REPLICAOF', '127.0.0.1', String(queue.port));
    await eventually('it is a replica', async () =>
      /master_link_status:up/.test(String(await replica.command('INFO', 'replication'))),
    );
    const gateway = await TestGateway.start(queue, pki, {
      INGEST_ENQUEUE_TIMEOUT_MS: '500',
      INGEST_QUEUE_REPLICAS: '1',
    });
    const client = gateway.client(producer);
    await eventually('it is accepted', async () => (await client.post(event('replicated'))).status === 202);
    assert.equal(await replica.length(), 1);
    await replica.command('REPLICAOF', 'NO', 'ONE');
    await eventually('the queue knows that it has none', async () =>
      /connected_slaves:0/.test(String(await queue.command('INFO', 'replication'))),
    );
    assertProblem(await client.post(event('not-replicated')), 503, 'QUEUE_UNAVAILABLE');
  });
});

describe('INGEST_LOG_LEVEL', () => {
  const LEVELS = ['debug', 'info', 'warn', 'error'] as const;

  it('is the least level that the gateway logs: each level shows its own lines and those above', async () => {
    for (const [at, level] of LEVELS.entries()) {
      const port = await freePort();
      const stateDir = temporaryFolder('ingest-state-');
      const gateway = new Program('ingest-gateway', {
        env: {
          INGEST_QUEUE_URI: redis.uri,
          INGEST_GATEWAY_ADDR: `127.0.0.1:${port}`,
          INGEST_STATE_DIR: stateDir,
          INGEST_LOG_LEVEL: level,
        },
      });
      const client = new TestClient(port, '', undefined, { rejectUnauthorized: false });
      await eventually('it is ready', async () => (await client.ask({ path: '/health/ready' })).status === 200);
      // What debug tells: a handshake that came to nothing.
      await new Promise((resolve) => {
        const socket = connect(port, '127.0.0.1', () => socket.end('no TLS\r\n\r\n'));
        socket.on('error', () => undefined).on('close', resolve);
        socket.resume();
      });
      await eventually('the handshake counts as failed', async () =>
        /handshake_failures_total\{[^}]*\} [1-9]/.test((await client.ask({ path: '/metrics' })).body),
      );
      gateway.signal('SIGTERM');
      assert.equal(await gateway.ended, 0);
      const seen = LEVELS.filter((name) => gateway.output.includes(`"level":"${name}"`));
      // Nothing goes wrong here, so no error is logged.
      assert.deepEqual(
        seen,
        LEVELS.slice(at).filter((name) => name !== 'error'),
        gateway.output,
      );
    }
  });

  it('is the least level that the consumer logs', async () => {
    for (const level of ['info', 'warn'] as const) {
      const port = await freePort();
      const consumer = new Program('ingest-consumer', {
        env: {
          INGEST_QUEUE_URI: redis.uri,
          INGEST_WAREHOUSE_URI: sqliteStore().uri,
          INGEST_CONSUMER_ADDR: `127.0.0.1:${port}`,
          INGEST_LOG_LEVEL: level,
        },
      });
      await eventually('it is ready', async () => (await fetch(`http://127.0.0.1:${port}/health/ready`)).ok);
      consumer.signal('SIGTERM');
      assert.equal(await consumer.ended, 0);
      assert.equal(consumer.output.includes('"level":"info"'), level === 'info', consumer.output);
    }
  });
});

describe('INGEST_CONSUMER_BATCH_MAX', () => {
  const EVENTS = 400;

  /** How many entries each read of a consumer asked Redis for, while it landed a backlog. */
  async function readSizes(batchMax: string): Promise<number[]> {
    const queue = await TestRedis.start(['--slowlog-log-slower-than', '0', '--slowlog-max-len', '100000']);
    const gateway = await TestGateway.start(queue, pki, PATIENT);
    const client = gateway.client(producer);
    for (let from = 0; from < EVENTS; from += 50)
      await Promise.all(Array.from({ length: 50 }, (_, at) => client.post(event(`batch-${from + at}`))));
    const store = sqliteStore();
    const consumer = new Program('ingest-consumer', {
      env: {
        INGEST_QUEUE_URI: queue.uri,
        INGEST_WAREHOUSE_URI: store.uri,
        INGEST_CONSUMER_ADDR: '127.0.0.1:0',
        INGEST_CONSUMER_BATCH_MAX: batchMax,
      },
    });
    await eventually('all have landed', async () => (await store.count()) === EVENTS);
    await consumer.kill();
    const log = (await queue.command('SLOWLOG', 'GET', '-1')) as [number, number, number, string[]][];
    return log.flatMap(([, , , [command, ...words]]) => {
      const at = words.findIndex((word) => word.toUpperCase() === 'COUNT');
      return command?.toUpperCase() === 'XREADGROUP' && at !== -1 ? [Number(words[at + 1])] : [];
    });
  }

  it('is the most that one read asks for', async () => {
    const [few, many] = await Promise.all([readSizes('7'), readSizes('300')]);
    assert.ok(few.length >= EVENTS / 7, `${few.length} reads`);
    assert.equal(Math.max(...few), 7);
    assert.ok(Math.max(...many) > 7 && Math.max(...many) <= 300, `${Math.max(...many)}`);
  });
});
