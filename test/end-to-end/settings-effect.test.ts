// Settings do what the README says they do, seen from outside: each value from both of its sides.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { event, PATIENT, TestGateway, type RawConnection, type Reply } from '../support/gateway.ts';
import { eventually } from '../support/scope.ts';
import { boundTo, jwks, TokenIssuer } from '../support/tokens.ts';
import { assertProblem } from '../support/verdicts.ts';
import { askRaw, postText, replies, requestText } from '../support/wire.ts';
import { body, chunked, hold, max, pki, producer, redis, startBounded } from './settings-effect.ts';

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
