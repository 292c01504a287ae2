import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import type { ConnectionOptions } from 'node:tls';
import { event, TestGateway, type RawConnection } from '../support/gateway.ts';
import { AUDIENCE_URI, Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { addsNothing, assertAlive } from '../support/verdicts.ts';
import { askRaw, postText, requestText } from '../support/wire.ts';

let redis: TestRedis;
let pki: Pki;
let gateway: TestGateway;

before(async () => {
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  const crl = pki.write('crl.pem', await pki.authority.revocationList([]));
  gateway = await TestGateway.start(redis, pki, { INGEST_TLS_CLIENT_CRL: crl });
  atEnd(() => assertAlive(gateway));
});

async function firstConnection(
  certificate: ClientCertificate | undefined,
  options: ConnectionOptions,
): Promise<[RawConnection, Buffer]> {
  let session: Buffer | undefined;
  const connection = await gateway.socket(certificate, options);
  connection.socket.on('session', (granted) => (session = granted));
  // With TLS 1.2, the session is available after the handshake. With TLS 1.3, it arrives later.
  if (options.maxVersion === 'TLSv1.2') session = connection.socket.getSession();
  return [connection, await eventually('a session was granted', () => session)];
}

const post = async (connection: RawConnection, id: string): Promise<number> =>
  (await askRaw(connection, postText(event(id)))).status;

async function shortLived(version: string, options: ConnectionOptions) {
  // On a busy machine, the certificate may expire before the request arrives, so each new one is valid for longer.
  for (let lastsMs = 1_000; ; lastsMs *= 2) {
    const notAfter = new Date(Math.ceil(Date.now() / 1000) * 1000 + lastsMs);
    const certificate = await pki.producer('short', { notAfter });
    const [first, session] = await firstConnection(certificate, options);
    const status = await post(first, `short-${version}-${lastsMs}`);
    if (status === 401 && lastsMs < 10_000) continue;
    assert.equal(status, 202);
    return { first, session, certificate, notAfter };
  }
}

for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
  const tags = version === 'TLSv1.3' ? [] : ['long'];
  describe(`a session resumed with ${version}`, { tags }, () => {
    const options: ConnectionOptions = { minVersion: version, maxVersion: version };

    it('keeps the identity', async () => {
      const certificate = await pki.producer(`resuming-${version}`);
      const [first, session] = await firstConnection(certificate, options);
      assert.equal(await post(first, `first-${version}`), 202);
      // The client resumes without a certificate, because the session contains the identity.
      const resumed = await gateway.socket(undefined, { ...options, session });
      assert.ok(resumed.socket.isSessionReused());
      assert.equal(await post(resumed, `resumed-${version}`), 202);
      assert.equal((await redis.entries()).at(-1)?.fields['producer'], `urn:test:producer:resuming-${version}`);
    });

    it('keeps the identity under an intermediate that only the client sends', async () => {
      const department = await pki.authority.intermediate('department');
      const own = await TestGateway.start(redis, pki);
      const issued = await department.issue({ commonName: 'member', uris: ['urn:test:producer:member', AUDIENCE_URI] });
      const certificate = { cert: issued.certificate + department.certificate, key: issued.key, serial: issued.serial };
      const before = gateway;
      gateway = own;
      try {
        const [, session] = await firstConnection(certificate, options);
        const resumed = await gateway.socket(undefined, { ...options, session });
        assert.ok(resumed.socket.isSessionReused());
        assert.equal(await post(resumed, `below-${version}`), 202);
      } finally {
        gateway = before;
      }
    });

    it('gets 401 once its certificate has expired', async () => {
      const { first, session, certificate, notAfter } = await shortLived(version, options);
      await eventually('the certificate has expired', () => Date.now() > notAfter.getTime());
      await addsNothing(redis, async () => {
        const resumed = await gateway.socket(certificate, { ...options, session });
        assert.ok(resumed.socket.isSessionReused());
        assert.equal(await post(resumed, `short-later-${version}`), 401);
        assert.equal(await post(first, `short-later-${version}`), 401);
      });
    });

    it('of a producer that has been revoked is refused', async () => {
      const certificate = await pki.producer('revoked');
      const [, session] = await firstConnection(certificate, options);
      const reloads = await gateway.metric('ingest_reloads_total');
      pki.write('crl.pem', await pki.authority.revocationList([certificate.serial]));
      await eventually('the list is in use', async () => (await gateway.metric('ingest_reloads_total')) > reloads);
      await addsNothing(redis, async () => {
        const resumed = await gateway.socket(certificate, { ...options, session });
        assert.ok(!resumed.socket.isSessionReused());
        assert.equal(await post(resumed, `revoked-${version}`), 401);
      });
    });

    it('without a certificate stays unauthenticated', { tags: ['long'] }, async () => {
      const [first, session] = await firstConnection(undefined, options);
      assert.equal((await askRaw(first, requestText('GET /health/live'))).status, 200);
      const resumed = await gateway.socket(undefined, { ...options, session });
      await addsNothing(redis, async () => assert.equal(await post(resumed, `nobody-${version}`), 401));
    });
  });
}
