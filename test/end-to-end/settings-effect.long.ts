import { before, describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { event, PATIENT, TestGateway, type Reply } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
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

describe('INGEST_AUDIENCE', () => {
  it('is the audience that a producer must carry, in its certificate, and no other', async () => {
    const gateway = await TestGateway.start(redis, pki, { ...PATIENT, INGEST_AUDIENCE: 'billing' });
    const uris = ['urn:test:producer:billed', 'urn:ingest:aud:billing'];
    assert.equal((await gateway.client(await pki.producer('billed', { uris })).post(event('billed'))).status, 202);
    assertProblem(await gateway.client(producer).post(event('not-billed')), 403, 'UNAUTHORIZED_PRODUCER');
  });
});

describe('INGEST_TOKEN_ISSUER', () => {
  it('is the issuer that a token must name', async () => {
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

describe('INGEST_CONSUMER_BATCH_MAX', () => {
  const EVENTS = 400;

  /** Returns the COUNT of each XREADGROUP while a consumer landed a backlog. */
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
