// Resumed sessions, renegotiation and changed files, with real handshakes. test/identity has the verdicts.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { CertificateAuthority, LOCALHOST } from '../support/certificate-authority.ts';
import { queueAndProducer } from '../support/file-gateway.ts';
import { event, TestGateway, type RawConnection } from '../support/gateway.ts';
import { Load } from '../support/load.ts';
import { AUDIENCE_URI, type ClientCertificate } from '../support/pki.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { tool } from '../support/tool.ts';
import { addsNothing, assertAlive } from '../support/verdicts.ts';
import { askRaw, postText } from '../support/wire.ts';

const { redis, pki, producer } = await queueAndProducer();
const [revoked, other, unlisted] = await Promise.all([
  pki.producer('revoked'),
  pki.producer('other', { uris: ['spiffe://test/other'] }),
  pki.authority.intermediate('unlisted department'),
]);

// This gateway has no lists, so that a client may have an intermediate that only it sends.
const plain = await TestGateway.start(redis, pki);
atEnd(() => assertAlive(plain));
const writeLists = async (...serials: readonly string[]): Promise<string> =>
  pki.write('crl.pem', await pki.authority.revocationList([revoked.serial, ...serials]));
const gateway = await TestGateway.start(redis, pki, { INGEST_TLS_CLIENT_CRL: await writeLists() });
atEnd(() => assertAlive(gateway));

async function issuedBy(
  authority: CertificateAuthority,
  name: string,
  { chain = '', uris = [`urn:test:producer:${name}`, AUDIENCE_URI] } = {},
): Promise<ClientCertificate> {
  const { certificate, key, serial } = await authority.issue({ commonName: name, uris });
  return { cert: certificate + chain, key, serial };
}

async function change(by: TestGateway, write: () => Promise<unknown>): Promise<void> {
  const before = await by.metric('ingest_reloads_total');
  await write();
  await eventually('the change is in use', async () => (await by.metric('ingest_reloads_total')) > before);
}

async function renewServer(): Promise<string> {
  const { key, certificate } = await pki.authority.issue(LOCALHOST);
  pki.write('server-key.pem', key);
  pki.write('server.pem', certificate);
  return certificate;
}

it('the process endpoints need no certificate and ignore a bad one', async () => {
  for (const client of [gateway.client(), gateway.client(revoked)])
    for (const path of ['/health/live', '/health/ready', '/metrics'])
      assert.equal((await client.ask({ path })).status, 200);
});

async function granted(by: TestGateway, certificate: ClientCertificate | undefined): Promise<[RawConnection, Buffer]> {
  let session: Buffer | undefined;
  const connection = await by.socket(certificate);
  connection.socket.on('session', (granted) => (session = granted));
  return [connection, await eventually('a session was granted', () => session)];
}

const posted = async (connection: RawConnection, id: string): Promise<number> =>
  (await askRaw(connection, postText(event(id)))).status;

async function shortLived() {
  // On a busy machine, the certificate may expire before the request arrives, so each new one is valid for longer.
  for (let lastsMs = 1_000; ; lastsMs *= 2) {
    const notAfter = new Date(Math.ceil(Date.now() / 1000) * 1000 + lastsMs);
    const certificate = await pki.producer('short', { notAfter });
    const [first, session] = await granted(gateway, certificate);
    const status = await posted(first, `short-${lastsMs}`);
    if (status === 202) return { first, session, certificate, notAfter };
    assert.ok(lastsMs < 10_000, `${status}`);
  }
}

describe('a resumed session', () => {
  it('keeps the identity, also under an intermediate that only the client sends', async () => {
    const below = await issuedBy(unlisted, 'below', { chain: unlisted.certificate });
    for (const [by, certificate, name] of [
      [gateway, producer, 'one'],
      [plain, below, 'below'],
    ] as const) {
      const [, session] = await granted(by, certificate);
      // The client resumes without a certificate, because the session contains the identity.
      const resumed = await by.socket(undefined, { session });
      assert.ok(resumed.socket.isSessionReused());
      assert.equal(await posted(resumed, `resumed-${name}`), 202);
      assert.equal((await redis.entries()).at(-1)?.fields['producer'], `urn:test:producer:${name}`);
    }
  });

  it('without a certificate stays unauthenticated', async () => {
    const [, session] = await granted(gateway, undefined);
    const resumed = await gateway.socket(undefined, { session });
    assert.ok(resumed.socket.isSessionReused());
    await addsNothing(redis, async () => assert.equal(await posted(resumed, 'nobody'), 401));
  });

  it('gets 401 once its certificate has expired', async () => {
    const { first, session, certificate, notAfter } = await shortLived();
    await eventually('the certificate has expired', () => Date.now() > notAfter.getTime());
    await addsNothing(redis, async () => {
      const resumed = await gateway.socket(certificate, { session });
      assert.ok(resumed.socket.isSessionReused());
      for (const one of [resumed, first]) {
        assert.equal(await posted(one, 'expired'), 401);
        await one.untilClosed(); // Its client may have a new certificate.
      }
    });
  });

  it('of a producer that has been revoked is refused', async () => {
    const certificate = await pki.producer('revoked-later');
    const [, session] = await granted(gateway, certificate);
    await change(gateway, () => writeLists(certificate.serial));
    await addsNothing(redis, async () => {
      const resumed = await gateway.socket(certificate, { session });
      assert.ok(!resumed.socket.isSessionReused());
      assert.equal(await posted(resumed, 'revoked-later'), 401);
    });
  });
});

const PYTHON = tool('python3', 'python3');
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

it('TLS renegotiation with another certificate is refused before and after a reload of the certificates', async () => {
  const unknown = new CertificateAuthority('an unknown authority');
  const forged = await issuedBy(unknown, 'victim', { uris: ['spiffe://test/victim', AUDIENCE_URI] });
  for (const id of ['fresh', 'reloaded']) {
    assert.match(await renegotiated(`${id}-plain`, producer), /^none\nHTTP\/1\.1 202 /);
    const answer = await addsNothing(redis, () => renegotiated(id, other, forged));
    assert.match(answer, /^refused\n(?!HTTP\/1\.1 202 )/);
    if (id === 'reloaded') break;
    await change(plain, renewServer);
  }
});

it('under load, all files change without a failed request, and only revoked producers are disconnected, and soon', async () => {
  const [stays, leaves] = await Promise.all([pki.producer('stays'), pki.producer('leaves')]);
  const load = new Load(gateway.client(stays), 'stays', 8, 5);
  const leaving = new Load(gateway.client(leaves), 'leaves', 4, 5);
  await load.more(50);

  let renewed = '';
  await change(gateway, async () => (renewed = await renewServer()));
  const { socket } = await gateway.socket();
  assert.equal(socket.getPeerX509Certificate()?.serialNumber, new X509Certificate(renewed).serialNumber);
  await load.more(50);

  const second = new CertificateAuthority('second authority');
  const secondList = await second.revocationList([]);
  await change(gateway, async () => {
    pki.write('ca.pem', pki.authority.certificate + second.certificate);
    pki.write('crl.pem', readFileSync(pki.path('crl.pem'), 'utf8') + secondList);
  });
  const newcomer = await issuedBy(second, 'newcomer');
  assert.equal((await gateway.client(newcomer).post(event('newcomer'))).status, 202);
  await load.more(50);
  assert.deepEqual([leaving.statuses, leaving.errors], [[202], []]);

  const [idle, silent] = [await gateway.socket(leaves), await gateway.socket(leaves)];
  const others = [await gateway.socket(stays), await gateway.socket(newcomer)];
  assert.equal(await posted(idle, 'idle'), 202);
  pki.write('crl.pem', (await pki.authority.revocationList([leaves.serial])) + secondList);
  await eventually('both are closed', () => idle.closed && silent.closed);
  await eventually('the revoked are told so', () => leaving.statuses.includes(401));
  const accepted = leaving.accepted.size;
  await leaving.more(20);
  await load.more(50);
  await Promise.all([load.stop(), leaving.stop()]);
  assert.equal(leaving.accepted.size, accepted);
  assert.deepEqual([load.statuses, load.errors], [[202], []]);
  for (const [at, one] of others.entries()) assert.equal(await posted(one, `other-${at}`), 202);
});
