import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { event, TestGateway } from '../support/gateway.ts';
import { AUDIENCE_URI, Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { renegotiate } from '../support/renegotiation.ts';
import { eventually } from '../support/scope.ts';
import { postText } from '../support/wire.ts';
import { addsNothing, assertAlive } from '../support/verdicts.ts';
import { SYSTEM } from '../support/system.ts';

const VICTIM = 'spiffe://test/victim';
let redis: TestRedis;
let pki: Pki;
let producer: ClientCertificate;
/** A certificate signed by the gateway's authority, but without the gateway's audience. */
let stranger: ClientCertificate;
/** A certificate with the victim's names, signed by an unknown authority. */
let forged: ClientCertificate;

before(async () => {
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  producer = await pki.producer('producer');
  stranger = await pki.producer('stranger', { uris: ['spiffe://test/stranger'] });
  const other = await CertificateAuthority.create(SYSTEM, 'an authority of its own');
  const issued = await other.issue({ commonName: 'victim', uris: [VICTIM, AUDIENCE_URI] });
  forged = { cert: issued.certificate, key: issued.key, serial: issued.serial };
});

const post = (id: string): string => postText(event(id), ['Connection: close']);

async function reload(gateway: TestGateway): Promise<void> {
  const reloads = await gateway.metric('ingest_reloads_total');
  const server = await pki.authority.issue({
    commonName: 'localhost',
    dnsNames: ['localhost'],
    addresses: ['127.0.0.1', '::1'],
    server: true,
  });
  pki.write('server-key.pem', server.key);
  pki.write('server.pem', server.certificate);
  gateway.signal('SIGHUP');
  await eventually('new TLS material is in use', async () => (await gateway.metric('ingest_reloads_total')) > reloads);
}

describe('TLS renegotiation with another certificate', () => {
  it('is refused before and after a reload of the certificates', async () => {
    const gateway = await TestGateway.start(redis, pki);
    for (const id of ['fresh', 'reloaded']) {
      const { received } = await renegotiate(pki, gateway.port, producer, undefined, post(`${id}-plain`));
      assert.match(received, /^HTTP\/1\.1 202 /, 'the same client without a renegotiation');
      await addsNothing(redis, async () => {
        const { outcome, received: answer } = await renegotiate(pki, gateway.port, stranger, forged, post(id));
        assert.equal(outcome, 'refused');
        assert.doesNotMatch(answer, /^HTTP\/1\.1 202 /);
      });
      if (id === 'fresh') await reload(gateway);
    }
    await assertAlive(gateway);
  });
});
