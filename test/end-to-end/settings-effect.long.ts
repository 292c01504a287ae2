// Settings do what the README says they do, seen from outside: each value from both of its sides.
import { before, describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { event, PATIENT, TestGateway, type RawConnection, type Reply, TestClient } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis, freePort } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { postText, askRaw, replies, requestText } from '../support/wire.ts';
import { boundTo, jwks, TokenIssuer } from '../support/tokens.ts';
import { assertProblem } from '../support/verdicts.ts';
import { Program } from '../support/program.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

let redis: TestRedis;
let pki: Pki;
let producer: ClientCertificate;

before(async () => {
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  producer = await pki.producer('one');
});

const chunked = (body: string): string =>
  `${postText('', ['Transfer-Encoding: chunked'])}${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;

/** INGEST_IN_FLIGHT_BYTES_MAX, of the gateways of `startBounded`. */
const max = 10_000;

const body = (id: string, bytes: number): string =>
  event(id, { fill: 'x'.repeat(bytes - event(id, { fill: '' }).length) });

const startBounded = (): Promise<TestGateway> =>
  // The body that is held must not time out before the test is over.
  TestGateway.start(redis, pki, {
    ...PATIENT,
    INGEST_IN_FLIGHT_BYTES_MAX: String(max),
    INGEST_REQUEST_TIMEOUT_MS: '600000',
  });

/** Another producer's body that is announced and not sent, so that no event is alone. */
async function hold(gateway: TestGateway, bytes: number): Promise<void> {
  const holder = await gateway.socket(await pki.producer('holder'));
  holder.write(postText('', [`Content-Length: ${bytes}`]));
  await eventually('its event is in flight', async () => (await gateway.metric('ingest_events_in_flight')) === 1);
}

describe('INGEST_CONNECTIONS_MAX', () => {
  it('is how many connections there are: for one more an idle one of its producer ends', async () => {
    const gateway = await TestGateway.start(redis, pki, {
      ...PATIENT,
      INGEST_CONNECTIONS_MAX: '3',
      INGEST_CONNECTIONS_PER_ADDRESS_MAX: '0',
    });
    const served: Awaited<ReturnType<TestGateway['socket']>>[] = [];
    for (let at = 0; at < 6; at += 1) {
      const one = await gateway.socket(producer);
      served.push(one);
      const { status } = await askRaw(one, postText(event(`connection-${at}`)));
      assert.equal(status, 202);
      await eventually('one has ended for it', () => served.filter(({ closed }) => !closed).length <= 3);
    }
    const { body: metrics } = await askRaw(served[5] as RawConnection, requestText('GET /metrics'));
    assert.ok(Number(/^ingest_connections (\d+)$/m.exec(metrics)?.[1]) <= 3);
    assert.ok(served[0]?.closed);
  });
});

describe('INGEST_IN_FLIGHT_BYTES_MAX', () => {
  it('is how many bytes may be in flight: the last one is taken, and one more is not', async () => {
    const gateway = await startBounded();
    await hold(gateway, 4_000);
    const client = gateway.client(producer);
    assertProblem(await client.post(body('over', max - 4_000 + 1)), 503, 'QUEUE_OVERLOADED');
    assert.equal((await client.post(body('within', max - 4_000))).status, 202);
  });

  it('bounds a chunked body as it grows', async () => {
    const gateway = await startBounded();
    await hold(gateway, 4_000);
    const [over] = await replies(await written(gateway, chunked(body('chunked-over', max - 4_000 + 1))), 1);
    assert.match(`${over?.status} ${over?.body}`, /^503 .*"QUEUE_OVERLOADED"/);
    const [within] = await replies(await written(gateway, chunked(body('chunked-within', max - 4_000))), 1);
    assert.equal(within?.status, 202);
  });

  async function written(gateway: TestGateway, text: string) {
    const connection = await gateway.socket(producer);
    connection.write(text);
    return connection;
  }

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

describe('INGEST_AUDIENCE', () => {
  it('is the audience that a producer must carry, in its certificate, and no other', async () => {
    const gateway = await TestGateway.start(redis, pki, { ...PATIENT, INGEST_AUDIENCE: 'billing' });
    const uris = ['urn:test:producer:billed', 'urn:ingest:aud:billing'];
    assert.equal((await gateway.client(await pki.producer('billed', { uris })).post(event('billed'))).status, 202);
    assertProblem(await gateway.client(producer).post(event('not-billed')), 403, 'UNAUTHORIZED_PRODUCER');
  });
});

describe('INGEST_TOKEN_ISSUER', () => {
  it('is the issuer that a token must name; the audience is looked for in the token', async () => {
    const issuer = await TokenIssuer.create('first');
    const gateway = await TestGateway.start(redis, pki, {
      ...PATIENT,
      INGEST_AUDIENCE: 'billing',
      INGEST_TOKEN_JWKS: pki.write('jwks.json', jwks(issuer)),
      INGEST_TOKEN_ISSUER: 'https://issuer.test',
    });
    const ask = async (id: string, claims: Readonly<Record<string, string>>): Promise<Reply> => {
      const token = await issuer.token({ ...boundTo(producer), aud: 'billing', ...claims });
      return gateway.client(producer).post(event(id), { authorization: `Bearer ${token}` });
    };
    assert.equal((await ask('issued', { iss: 'https://issuer.test' })).status, 202);
    assertProblem(await ask('issued-elsewhere', { iss: 'https://issuer.example' }), 401, 'UNAUTHORIZED_PRODUCER');
    assertProblem(await ask('issued-by-nobody', {}), 401, 'UNAUTHORIZED_PRODUCER');
    const elsewhere = { iss: 'https://issuer.test', aud: 'ingest-gateway' };
    assertProblem(await ask('for-another-audience', elsewhere), 403, 'UNAUTHORIZED_PRODUCER');
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
