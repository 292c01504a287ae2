// Who a client is: certificates, tokens, resumed sessions and renegotiation, with real handshakes.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { describe, it } from 'node:test';
import type { ConnectionOptions } from 'node:tls';
import { promisify } from 'node:util';
import { CertificateAuthority, LOCALHOST } from '../support/certificate-authority.ts';
import { queueAndProducer } from '../support/file-gateway.ts';
import { event, TestGateway, type RawConnection, type Reply } from '../support/gateway.ts';
import { AUDIENCE_URI, Pki, type ClientCertificate } from '../support/pki.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { boundTo, jwks, TokenIssuer, unsigned } from '../support/tokens.ts';
import { addsNothing, assertAlive, assertProblem } from '../support/verdicts.ts';
import { askRaw, postText } from '../support/wire.ts';

const SPIFFE_ID = 'spiffe://test/producer';
const AUDIENCE = 'ingest-gateway';

const { redis, pki, producer } = await queueAndProducer();
const [revoked, tokenHolder, other, issuer] = await Promise.all([
  pki.producer('revoked'),
  pki.producer('token', { uris: [SPIFFE_ID] }),
  pki.producer('other', { uris: ['spiffe://test/other'] }),
  TokenIssuer.create('first'),
]);
const [department, closed, unlisted] = await Promise.all(
  ['department', 'closed department', 'unlisted department'].map((name) => pki.authority.intermediate(name)),
);
assert.ok(department !== undefined && closed !== undefined && unlisted !== undefined);

// This gateway has no lists, so that a client may have an intermediate that only it sends.
const plain = await TestGateway.start(redis, pki);
atEnd(() => assertAlive(plain));
pki.write('ca.pem', pki.authority.certificate + department.certificate + closed.certificate);
const writeLists = async (...serials: readonly string[]): Promise<string> =>
  pki.write(
    'crl.pem',
    (
      await Promise.all([
        pki.authority.revocationList([
          revoked.serial,
          new X509Certificate(closed.certificate).serialNumber,
          ...serials,
        ]),
        department.revocationList([]),
        closed.revocationList([]),
      ])
    ).join(''),
  );
const gateway = await TestGateway.start(redis, pki, {
  INGEST_TLS_CLIENT_CRL: await writeLists(),
  INGEST_TOKEN_JWKS: pki.write('jwks.json', jwks(issuer)),
});
atEnd(() => assertAlive(gateway));

async function issuedBy(
  authority: CertificateAuthority,
  name: string,
  { chain = '', uris = [`urn:test:producer:${name}`, AUDIENCE_URI] } = {},
): Promise<ClientCertificate> {
  const { certificate, key, serial } = await authority.issue({ commonName: name, uris });
  return { cert: certificate + chain, key, serial };
}

const post = (certificate: ClientCertificate | undefined, id = 'identity', token?: string): Promise<Reply> =>
  gateway.client(certificate).post(event(id), token === undefined ? {} : { authorization: `Bearer ${token}` });

describe('a certificate that does not authenticate gets 401 and adds nothing', () => {
  const hour = (hours: number): Date => new Date(Date.now() + hours * 3_600_000);
  const strange = async (name: string): Promise<ClientCertificate> =>
    issuedBy(new CertificateAuthority(name), 'stranger');
  const cases: readonly (readonly [name: string, why: string, () => Promise<ClientCertificate | undefined>])[] = [
    ['no certificate', 'a client certificate is required', () => Promise.resolve(undefined)],
    ['an unknown authority', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', () => strange('another authority')],
    ['an unknown authority of the same name', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', () => strange('test authority')],
    ['an expired one', 'CERT_HAS_EXPIRED', () => pki.producer('expired', { notAfter: hour(-1) })],
    ['one that is not valid yet', 'CERT_NOT_YET_VALID', () => pki.producer('early', { notBefore: hour(1) })],
    ['a revoked one', 'CERT_REVOKED', () => Promise.resolve(revoked)],
    ['one for servers', 'INVALID_PURPOSE', () => pki.producer('server', { server: true })],
    ['one below a revoked intermediate', 'CERT_REVOKED', () => issuedBy(closed, 'closed')],
    ['the same, with its chain', 'CERT_REVOKED', () => issuedBy(closed, 'closed', { chain: closed.certificate })],
    ['one that names only the audience', 'names no producer', () => pki.producer('', { uris: [AUDIENCE_URI] })],
  ];
  for (const [name, why, certificate] of cases)
    it(name, async () => {
      const wrong = await certificate();
      const reply = await addsNothing(redis, () => post(wrong));
      assertProblem(reply, 401, 'UNAUTHORIZED_PRODUCER');
      assert.match(String(reply.headers['www-authenticate']), /^(?:Bearer|TLS-Client-Certificate) realm="/);
      assert.ok(String(reply.json?.['detail']).includes(why), reply.body);
    });
});

describe('a good certificate', () => {
  it('without the audience gets 403 and adds nothing, whatever its names contain', async () => {
    for (const uris of [
      ['urn:test:producer:p', 'urn:ingest:aud:another'],
      [`urn:test:producer:p, URI:${AUDIENCE_URI}`],
      ['urn:test:producer:p', `${AUDIENCE_URI}\0`],
    ]) {
      const certificate = await pki.producer('p', { uris });
      const reply = await addsNothing(redis, () => plain.client(certificate).post(event('identity')));
      assertProblem(reply, 403, 'UNAUTHORIZED_PRODUCER');
    }
  });

  it('is accepted under an intermediate of the gateway, with and without its chain', async () => {
    assert.equal((await post(await issuedBy(department, 'member'), 'below-1')).status, 202);
    const chain = department.certificate;
    assert.equal((await post(await issuedBy(department, 'member', { chain }), 'below-2')).status, 202);
  });
});

it('the process endpoints need no certificate and ignore a bad one', async () => {
  for (const client of [gateway.client(), gateway.client(revoked)])
    for (const path of ['/health/live', '/health/ready', '/metrics'])
      assert.equal((await client.ask({ path })).status, 200);
});

describe('a token', () => {
  const ofAnother = { ...boundTo(tokenHolder), aud: 'another' };
  const cases: readonly (readonly [name: string, status: number, () => Promise<string | undefined> | string])[] = [
    ['that is missing gets 401', 401, () => Promise.resolve(undefined)],
    ['bound to another certificate gets 401', 401, () => issuer.token(boundTo(other))],
    ['that is unsigned gets 401', 401, () => unsigned({ ...boundTo(tokenHolder), aud: AUDIENCE, exp: 4e9 })],
    ['for another audience gets 403', 403, () => issuer.token(ofAnother)],
  ];
  for (const [name, status, make] of cases)
    it(`${name} and adds nothing, also the second time`, async () => {
      const token = await make();
      for (let times = 0; times < 2; times += 1)
        assertProblem(
          await addsNothing(redis, () => post(tokenHolder, 'token', token)),
          status,
          'UNAUTHORIZED_PRODUCER',
        );
    });

  it('without a certificate, or with one of an unknown authority, gets 401', async () => {
    const stranger = await (await Pki.create()).producer('one', { uris: [SPIFFE_ID] });
    for (const [certificate, claims] of [
      [undefined, boundTo(tokenHolder)],
      [stranger, { sub: SPIFFE_ID }],
    ] as const)
      assertProblem(await post(certificate, 'token', await issuer.token(claims)), 401, 'UNAUTHORIZED_PRODUCER');
  });

  it('is accepted with the certificate that its thumbprint or SPIFFE id names, also with several audiences', async () => {
    assert.equal((await post(tokenHolder, 'thumbprint', await issuer.token(boundTo(tokenHolder)))).status, 202);
    const bySpiffeId = await issuer.token({ sub: SPIFFE_ID, aud: ['another', AUDIENCE] });
    assert.equal((await post(tokenHolder, 'spiffe', bySpiffeId)).status, 202);
    assert.equal((await redis.entries()).at(-1)?.fields['producer'], SPIFFE_ID);
  });

  it('is verified with the keys of a changed file, and a broken file changes nothing', async () => {
    const next = await TokenIssuer.create();
    const [oldToken, newToken] = [await issuer.token(boundTo(tokenHolder)), await next.token(boundTo(tokenHolder))];
    const status = async (token: string): Promise<number> => (await post(tokenHolder, 'rotation', token)).status;
    assert.deepEqual([await status(oldToken), await status(newToken)], [202, 401]);
    pki.write('jwks.json', jwks(next, issuer));
    await eventually('both keys are in use', async () => (await status(newToken)) === 202);
    assert.equal(await status(oldToken), 202);
    pki.write('jwks.json', '{"keys":');
    await gateway.line(/changed files refused/);
    assert.deepEqual([await status(oldToken), await status(newToken)], [202, 202]);
    pki.write('jwks.json', jwks(next));
    await eventually('the old key is not in use', async () => (await status(oldToken)) === 401);
    assert.equal(await status(newToken), 202);
  });
});

async function granted(
  by: TestGateway,
  certificate: ClientCertificate | undefined,
  options: ConnectionOptions,
): Promise<[RawConnection, Buffer]> {
  let session: Buffer | undefined;
  const connection = await by.socket(certificate, options);
  connection.socket.on('session', (granted) => (session = granted));
  // With TLS 1.2, the session is available after the handshake. With TLS 1.3, it arrives later.
  if (options.maxVersion === 'TLSv1.2') session = connection.socket.getSession();
  return [connection, await eventually('a session was granted', () => session)];
}

const posted = async (connection: RawConnection, id: string): Promise<number> =>
  (await askRaw(connection, postText(event(id)))).status;

async function shortLived(version: string, options: ConnectionOptions) {
  // On a busy machine, the certificate may expire before the request arrives, so each new one is valid for longer.
  for (let lastsMs = 1_000; ; lastsMs *= 2) {
    const notAfter = new Date(Math.ceil(Date.now() / 1000) * 1000 + lastsMs);
    const certificate = await pki.producer('short', { notAfter });
    const [first, session] = await granted(gateway, certificate, options);
    const status = await posted(first, `short-${version}-${lastsMs}`);
    if (status === 202) return { first, session, certificate, notAfter };
    assert.ok(lastsMs < 10_000, `${status}`);
  }
}

for (const version of ['TLSv1.2', 'TLSv1.3'] as const)
  describe(`a session resumed with ${version}`, { tags: version === 'TLSv1.3' ? [] : ['long'] }, () => {
    const options: ConnectionOptions = { minVersion: version, maxVersion: version };

    it('keeps the identity, also under an intermediate that only the client sends', async () => {
      const below = await issuedBy(unlisted, `below-${version}`, { chain: unlisted.certificate });
      for (const [by, certificate, name] of [
        [gateway, producer, 'one'],
        [plain, below, `below-${version}`],
      ] as const) {
        const [, session] = await granted(by, certificate, options);
        // The client resumes without a certificate, because the session contains the identity.
        const resumed = await by.socket(undefined, { ...options, session });
        assert.ok(resumed.socket.isSessionReused());
        assert.equal(await posted(resumed, `resumed-${version}-${name}`), 202);
        assert.equal((await redis.entries()).at(-1)?.fields['producer'], `urn:test:producer:${name}`);
      }
    });

    it('without a certificate stays unauthenticated', async () => {
      const [, session] = await granted(gateway, undefined, options);
      const resumed = await gateway.socket(undefined, { ...options, session });
      assert.ok(resumed.socket.isSessionReused());
      await addsNothing(redis, async () => assert.equal(await posted(resumed, 'nobody'), 401));
    });

    it('gets 401 once its certificate has expired', async () => {
      const { first, session, certificate, notAfter } = await shortLived(version, options);
      await eventually('the certificate has expired', () => Date.now() > notAfter.getTime());
      await addsNothing(redis, async () => {
        const resumed = await gateway.socket(certificate, { ...options, session });
        assert.ok(resumed.socket.isSessionReused());
        for (const one of [resumed, first]) {
          assert.equal(await posted(one, 'expired'), 401);
          await one.untilClosed(); // Its client may have a new certificate.
        }
      });
    });

    it('of a producer that has been revoked is refused', async () => {
      const certificate = await pki.producer('revoked-later');
      const [, session] = await granted(gateway, certificate, options);
      const reloads = await gateway.metric('ingest_reloads_total');
      await writeLists(certificate.serial);
      await eventually('the list is in use', async () => (await gateway.metric('ingest_reloads_total')) > reloads);
      await addsNothing(redis, async () => {
        const resumed = await gateway.socket(certificate, { ...options, session });
        assert.ok(!resumed.socket.isSessionReused());
        assert.equal(await posted(resumed, 'revoked-later'), 401);
      });
    });
  });

describe('TLS renegotiation with another certificate', () => {
  const PYTHON = execFileSync(new URL('../../bin/ensure-command', import.meta.url).pathname, ['python3', 'python3'], {
    encoding: 'utf8',
  }).trim();
  const SCRIPT = new URL('../support/renegotiate.py', import.meta.url).pathname;

  async function renegotiated(id: string, first: ClientCertificate, second?: ClientCertificate): Promise<string> {
    const files = ([name, certificate]: readonly [string, ClientCertificate | undefined]): string[] =>
      certificate === undefined
        ? ['-', '-']
        : [pki.write(`${name}.pem`, certificate.cert), pki.write(`${name}-key.pem`, certificate.key)];
    const request = pki.write('request.http', postText(event(id), ['Connection: close']));
    const args = [SCRIPT, `${plain.port}`, ...files(['first', first]), ...files(['second', second]), request];
    return (await promisify(execFile)(PYTHON, args, { encoding: 'latin1', timeout: 60_000 })).stdout;
  }

  it('is refused before and after a reload of the certificates', async () => {
    const unknown = new CertificateAuthority('an unknown authority');
    const forged = await issuedBy(unknown, 'victim', { uris: ['spiffe://test/victim', AUDIENCE_URI] });
    for (const id of ['fresh', 'reloaded']) {
      assert.match(await renegotiated(`${id}-plain`, producer), /^none\nHTTP\/1\.1 202 /);
      const answer = await addsNothing(redis, () => renegotiated(id, other, forged));
      assert.match(answer, /^refused\n(?!HTTP\/1\.1 202 )/);
      if (id === 'reloaded') break;
      const reloads = await plain.metric('ingest_reloads_total');
      const server = await pki.authority.issue(LOCALHOST);
      pki.write('server-key.pem', server.key);
      pki.write('server.pem', server.certificate);
      await eventually('they are in use', async () => (await plain.metric('ingest_reloads_total')) > reloads);
    }
  });
});
