import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { before, describe, it } from 'node:test';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { event, TestGateway, type Reply } from '../support/gateway.ts';
import { AUDIENCE_URI, Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd } from '../support/scope.ts';
import { addsNothing, assertAlive, assertProblem } from '../support/verdicts.ts';
import { SYSTEM } from '../support/system.ts';

const DAY_MS = 86_400_000;
let redis: TestRedis;
let pki: Pki;
let gateway: TestGateway;
let revoked: ClientCertificate;
let department: CertificateAuthority;
let closed: CertificateAuthority;

before(async () => {
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  revoked = await pki.producer('revoked');
  department = await pki.authority.intermediate('department');
  closed = await pki.authority.intermediate('closed department');
  pki.write('ca.pem', pki.authority.certificate + department.certificate + closed.certificate);
  const lists = await Promise.all([
    pki.authority.revocationList([revoked.serial, new X509Certificate(closed.certificate).serialNumber]),
    department.revocationList([]),
    closed.revocationList([]),
  ]);
  gateway = await TestGateway.start(redis, pki, { INGEST_TLS_CLIENT_CRL: pki.write('crl.pem', lists.join('')) });
  atEnd(() => assertAlive(gateway));
});

const post = (certificate: ClientCertificate | undefined, id = 'identity'): Promise<Reply> =>
  gateway.client(certificate).post(event(id));

async function issuedBy(authority: CertificateAuthority, name: string, chain = ''): Promise<ClientCertificate> {
  const issued = await authority.issue({ commonName: name, uris: [`urn:test:producer:${name}`, AUDIENCE_URI] });
  return { cert: issued.certificate + chain, key: issued.key, serial: issued.serial };
}

describe('a certificate that does not authenticate gets 401 and adds nothing', () => {
  const cases: Readonly<Record<string, readonly [why: string, () => Promise<ClientCertificate | undefined>]>> = {
    'no certificate': ['a client certificate is required', () => Promise.resolve(undefined)],
    'an authority nobody knows': [
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
      async () => issuedBy(await CertificateAuthority.create(SYSTEM, 'another authority'), 'stranger'),
    ],
    'an unknown authority of the same name': [
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
      async () => issuedBy(await CertificateAuthority.create(SYSTEM, 'test authority'), 'stranger'),
    ],
    'an expired certificate': [
      'CERT_HAS_EXPIRED',
      () => pki.producer('expired', { notAfter: new Date(Date.now() - 60_000) }),
    ],
    'a certificate that is not valid yet': [
      'CERT_NOT_YET_VALID',
      () => pki.producer('early', { notBefore: new Date(Date.now() + DAY_MS) }),
    ],
    'a revoked certificate': ['CERT_REVOKED', () => Promise.resolve(revoked)],
    'a certificate for servers': ['INVALID_PURPOSE', () => pki.producer('server', { server: true })],
    'a certificate below a revoked intermediate': ['CERT_REVOKED', () => issuedBy(closed, 'closed')],
    'a certificate below a revoked intermediate, sent with its chain': [
      'CERT_REVOKED',
      () => issuedBy(closed, 'closed', closed.certificate),
    ],
    'a certificate that names nobody but the audience': [
      'names no producer',
      () => pki.producer('', { uris: [AUDIENCE_URI] }),
    ],
  };
  for (const [name, [why, certificate]] of Object.entries(cases)) {
    it(name, async () => {
      const wrong = await certificate();
      await addsNothing(redis, async () => {
        const reply = await post(wrong);
        assertProblem(reply, 401, 'UNAUTHORIZED_PRODUCER');
        assert.match(String(reply.headers['www-authenticate']), /^TLS-Client-Certificate realm="/);
        assert.ok(String(reply.json?.['detail']).includes(why), reply.body);
        assertProblem(await gateway.client(wrong).find('identity'), 401, 'UNAUTHORIZED_PRODUCER');
      });
    });
  }
});

describe('a good identity without the audience gets 403 and adds nothing', () => {
  const names: Readonly<Record<string, Parameters<Pki['producer']>[1]>> = {
    'no audience': { uris: ['urn:test:producer:p'] },
    'the audience behind a comma in a URI name': { uris: [`urn:test:producer:p, URI:${AUDIENCE_URI}`] },
    'the audience with a NUL behind it': { uris: ['urn:test:producer:p', `${AUDIENCE_URI}\0`] },
  };
  for (const [name, options] of Object.entries(names)) {
    it(name, async () => {
      const certificate = await pki.producer('p', options);
      await addsNothing(redis, async () => {
        assertProblem(await post(certificate), 403, 'UNAUTHORIZED_PRODUCER');
      });
    });
  }
});

describe('a good certificate', () => {
  it('is accepted under an intermediate of the gateway, with and without its chain', async () => {
    assert.equal((await post(await issuedBy(department, 'member'), 'below-1')).status, 202);
    assert.equal((await post(await issuedBy(department, 'member', department.certificate), 'below-2')).status, 202);
  });
});

describe('the process endpoints', () => {
  it('need no certificate and ignore a bad one', async () => {
    for (const client of [gateway.client(), gateway.client(revoked)]) {
      for (const path of ['/health/live', '/health/ready', '/metrics'])
        assert.equal((await client.ask({ path })).status, 200);
    }
  });
});
