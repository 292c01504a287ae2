import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { before, describe, it } from 'node:test';
import { event, PATIENT, TestGateway, type RawConnection } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { Scrape } from '../support/scrape.ts';
import { assertAlive } from '../support/verdicts.ts';
import { askRaw, postText } from '../support/wire.ts';

/** The kernel distributes connections by a hash. The chance that one process gets none is 10^-12. */
const CONNECTIONS = 40;

let redis: TestRedis;
let pki: Pki;
let gateways: readonly [TestGateway, TestGateway];
let adminUrls: readonly string[];

before(async () => {
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  const [port, ...adminPorts] = await Promise.all([freePort(), freePort(), freePort()]);
  const crl = pki.write('crl.pem', await pki.authority.revocationList([]));
  const start = (adminPort: number): Promise<TestGateway> =>
    TestGateway.start(redis, pki, {
      ...PATIENT,
      INGEST_GATEWAY_ADDR: `127.0.0.1:${port}`,
      INGEST_GATEWAY_REUSE_PORT: '1',
      INGEST_ADMIN_ADDR: `127.0.0.1:${adminPort}`,
      INGEST_TLS_CLIENT_CRL: crl,
    });
  gateways = await Promise.all([start(adminPorts[0] ?? 0), start(adminPorts[1] ?? 0)]);
  adminUrls = adminPorts.map((adminPort) => `http://127.0.0.1:${adminPort}`);
});

async function each(metric: string): Promise<number[]> {
  const texts = await Promise.all(adminUrls.map(async (url) => (await fetch(`${url}/metrics`)).text()));
  return texts.map((text) => new Scrape(text).sum(metric));
}

const connect = (certificate: ClientCertificate, options = {}): Promise<RawConnection[]> =>
  Promise.all(Array.from({ length: CONNECTIONS }, () => gateways[0].socket(certificate, options)));

let sent = 0;
const post = async (connection: RawConnection): Promise<number> =>
  (await askRaw(connection, postText(event(`shared-${++sent}`)))).status;

describe('gateways that share a port', () => {
  it('both accept connections, and each counts its own', async () => {
    const before = await each('ingest_accepted_total');
    const connections = await connect(await pki.producer('shop'));
    assert.deepEqual(new Set(await Promise.all(connections.map(post))), new Set([202]));
    const accepted = (await each('ingest_accepted_total')).map((count, at) => count - (before[at] ?? 0));
    assert.ok(
      accepted.every((count) => count > 0),
      String(accepted),
    );
    assert.equal(
      accepted.reduce((sum, count) => sum + count, 0),
      CONNECTIONS,
    );
    const open = await each('ingest_connections');
    assert.deepEqual(open, accepted, 'one event on each connection');
    for (const { socket } of connections) socket.destroy();
  });

  it('all use new certificates and revocation lists on every connection', async () => {
    const [stays, leaves] = await Promise.all([pki.producer('stays'), pki.producer('leaves')]);
    const open = await connect(leaves);
    assert.deepEqual(new Set(await Promise.all(open.map(post))), new Set([202]));
    const reloads = await each('ingest_reloads_total');
    const renewed = await pki.authority.issue({
      commonName: 'localhost',
      dnsNames: ['localhost'],
      addresses: ['127.0.0.1'],
      server: true,
    });
    pki.write('server.pem', renewed.certificate);
    pki.write('server-key.pem', renewed.key);
    pki.write('crl.pem', await pki.authority.revocationList([leaves.serial]));
    await eventually('both have loaded them', async () =>
      (await each('ingest_reloads_total')).every((count, at) => count > (reloads[at] ?? 0)),
    );
    await Promise.all(open.map((connection) => connection.untilClosed()));
    const [trusted, revoked] = [await connect(stays), await connect(leaves)];
    const { serialNumber } = new X509Certificate(renewed.certificate);
    for (const { socket } of [...trusted, ...revoked])
      assert.equal(socket.getPeerX509Certificate()?.serialNumber, serialNumber);
    assert.deepEqual(new Set(await Promise.all(trusted.map(post))), new Set([202]));
    assert.deepEqual(new Set(await Promise.all(revoked.map(post))), new Set([401]));
    for (const gateway of gateways) await assertAlive(gateway);
  });
});
