import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, it } from 'node:test';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { event, TestGateway, type RawConnection } from '../support/gateway.ts';
import { Pki, AUDIENCE_URI, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { addsNothing, assertAlive, assertProblem } from '../support/verdicts.ts';
import { SYSTEM } from '../support/system.ts';
import { Load } from '../support/load.ts';
import { askRaw, postText, requestText } from '../support/wire.ts';

let redis: TestRedis;

before(async () => {
  redis = await TestRedis.start();
});

async function startGateway(pki: Pki, env: Readonly<Record<string, string>> = {}): Promise<TestGateway> {
  const gateway = await TestGateway.start(redis, pki, { ...env });
  atEnd(() => assertAlive(gateway));
  return gateway;
}

async function change(gateway: TestGateway, write: () => void): Promise<void> {
  const before = await gateway.metric('ingest_reloads_total');
  write();
  await eventually('the change is in use', async () => (await gateway.metric('ingest_reloads_total')) > before);
}

async function badChange(gateway: TestGateway, write: () => void): Promise<void> {
  const before = await gateway.metric('ingest_reload_failures_total');
  write();
  await eventually(
    'the change is refused',
    async () => (await gateway.metric('ingest_reload_failures_total')) > before,
  );
}

async function servedSerial(gateway: TestGateway, ca: string): Promise<string | undefined> {
  const connection = await gateway.socket(undefined, { ca });
  const serial = connection.socket.getPeerX509Certificate()?.serialNumber;
  connection.socket.destroy();
  return serial;
}

describe('under load', () => {
  it('server certificate, authorities and revocation list change without a failed request, and revoked producers are disconnected soon', async (t) => {
    const pki = await Pki.create();
    const crl = pki.write('crl.pem', await pki.authority.revocationList([]));
    const gateway = await startGateway(pki, { INGEST_TLS_CLIENT_CRL: crl });
    const [stays, leaves] = await Promise.all([pki.producer('stays'), pki.producer('leaves')]);
    const load = new Load(gateway.client(stays), 'stays', 8, 5);
    const leaving = new Load(gateway.client(leaves), 'leaves', 4, 5);
    await load.more(50);

    const renewed = await pki.authority.issue({
      commonName: 'localhost',
      dnsNames: ['localhost'],
      addresses: ['127.0.0.1'],
      server: true,
    });
    await change(gateway, () => {
      pki.write('server.pem', renewed.certificate);
      pki.write('server-key.pem', renewed.key);
    });
    assert.equal(
      await servedSerial(gateway, pki.authority.certificate),
      new X509Certificate(renewed.certificate).serialNumber,
    );
    await load.more(50);

    const second = await CertificateAuthority.create(SYSTEM, 'second authority');
    const secondList = await second.revocationList([]);
    await change(gateway, () => {
      pki.write('ca.pem', pki.authority.certificate + second.certificate);
      pki.write('crl.pem', readFileSync(crl, 'utf8') + secondList);
    });
    const issued = await second.issue({ commonName: 'newcomer', uris: ['urn:test:producer:newcomer', AUDIENCE_URI] });
    const newcomer: ClientCertificate = { cert: issued.certificate, key: issued.key, serial: issued.serial };
    assert.equal((await gateway.client(newcomer).post(event('newcomer'))).status, 202);
    await load.more(50);
    assert.deepEqual(leaving.statuses, [202]);
    assert.deepEqual(leaving.errors, []);

    const idle = await gateway.socket(leaves);
    assert.equal((await askRaw(idle, postText(event('idle')))).status, 202);
    const silent = await gateway.socket(leaves);
    const staysIdle = await gateway.socket(stays);
    const revocation = (await pki.authority.revocationList([leaves.serial])) + secondList;
    const start = performance.now();
    const outAfter = async (connection: RawConnection): Promise<number> => {
      await eventually('the connection is closed', () => connection.closed);
      return performance.now() - start;
    };
    pki.write('crl.pem', revocation);
    const times = await Promise.all([outAfter(idle), outAfter(silent)]);
    t.diagnostic(`closed after ${times.map((ms) => Math.round(ms)).join(' and ')} ms`);
    await addsNothingOf(leaving);

    await load.more(50);
    await Promise.all([load.stop(), leaving.stop()]);
    assert.deepEqual(load.errors, []);
    assert.deepEqual(load.statuses, [202]);
    assert.equal(leaving.replies.at(-1)?.status, 401);
    assert.ok(!staysIdle.closed);
    assert.equal((await askRaw(staysIdle, postText(event('stays-idle')))).status, 202);
  });

  async function addsNothingOf(leaving: Load): Promise<void> {
    await eventually('the revoked are told so', () => leaving.replies.at(-1)?.status === 401);
    const accepted = leaving.accepted.length;
    await leaving.more(20);
    assert.equal(leaving.accepted.length, accepted);
  }

  it(
    'a client of a removed authority is refused although its handshake started before',
    { tags: ['long'] },
    async () => {
      const pki = await Pki.create();
      const second = await CertificateAuthority.create(SYSTEM, 'second authority');
      pki.write('ca.pem', pki.authority.certificate + second.certificate);
      const gateway = await startGateway(pki, { INGEST_GATEWAY_ADDR: '0.0.0.0:0' });
      const issued = await second.issue({ commonName: 'theirs', uris: ['urn:test:producer:theirs', AUDIENCE_URI] });
      const open = async (host: string, localPort?: number): Promise<Socket> => {
        const socket = connect({
          host,
          port: gateway.port,
          localAddress: '127.0.0.3',
          ...(localPort && { localPort }),
        });
        atEnd(() => void socket.destroy());
        await once(socket, 'connect');
        return socket;
      };
      const begun = await open('127.0.0.1');
      await change(gateway, () => pki.write('ca.pem', pki.authority.certificate));
      await open('127.0.0.2', begun.localPort);
      const leaves = await gateway.socket(
        { cert: issued.certificate, key: issued.key, serial: '' },
        { socket: begun, servername: 'localhost' },
      );
      await addsNothing(redis, async () => {
        for (const id of ['begun-before', 'begun-before-again'])
          assert.equal((await askRaw(leaves, postText(event(id)))).status, 401);
      });
    },
  );
});

it(
  'new files that cannot be used are refused, logged and counted, and the last good ones stay',
  { tags: ['long'] },
  async () => {
    const pki = await Pki.create();
    const revoked = await pki.producer('revoked');
    const list = await pki.authority.revocationList([revoked.serial]);
    const gateway = await startGateway(pki, { INGEST_TLS_CLIENT_CRL: pki.write('crl.pem', list) });
    const client = gateway.client(await pki.producer('one'));
    const served = await servedSerial(gateway, pki.authority.certificate);
    const stranger = await CertificateAuthority.create(SYSTEM, 'stranger');
    const other = await pki.authority.issue({ commonName: 'localhost', dnsNames: ['localhost'], server: true });
    for (const [file, content] of [
      ['server-key.pem', other.key],
      ['crl.pem', list.slice(0, list.length / 2)],
      ['ca.pem', pki.authority.certificate + stranger.certificate],
    ] as const) {
      const good = readFileSync(pki.path(file), 'utf8');
      await badChange(gateway, () => pki.write(file, content));
      assert.equal((await client.post(event(file))).status, 202, file);
      assert.equal(await servedSerial(gateway, pki.authority.certificate), served, file);
      await addsNothing(redis, async () =>
        assertProblem(await gateway.client(revoked).post(event(file)), 401, 'UNAUTHORIZED_PRODUCER'),
      );
      await change(gateway, () => pki.write(file, good));
    }
    const refused = gateway.lines.filter((line) => line.includes('changed files refused'));
    assert.ok(refused.length >= 3);
    assert.match(refused.join(), /missing: \\+"CN=stranger/);
    for (const line of refused) assert.match(line, /"level":"error".*"reason":"(INGEST_TLS_|the new crl)/);
  },
);

describe('a revocation list that becomes overdue', { tags: ['long'] }, () => {
  it(
    'refuses everyone after showing the remaining time in a metric, and a new list ends that',
    { tags: ['long'] },
    async () => {
      const pki = await Pki.create();
      const gateway = await startGateway(pki, {
        INGEST_TLS_CLIENT_CRL: pki.write('crl.pem', await pki.authority.revocationList([])),
      });
      const one = await pki.producer('one');
      const open = await gateway.socket(one);
      const lastsS = 15;
      const due = new Date((Math.ceil(Date.now() / 1000) + lastsS) * 1000);
      const short = await pki.authority.revocationList([], { nextUpdate: due });
      await change(gateway, () => pki.write('crl.pem', short));
      assert.equal((await askRaw(open, postText(event('in-time')))).status, 202);
      const left = await gateway.metric('ingest_tls_certificate_expiry_seconds', { file: 'crl' });
      assert.ok(left <= lastsS + 1 && left >= 0, String(left));
      for (const file of ['cert', 'client_ca']) {
        const seconds = await gateway.metric('ingest_tls_certificate_expiry_seconds', { file });
        assert.ok(seconds > 86_400 * 300, `${file}: ${seconds}`);
      }
      await eventually('the list is overdue', () => Date.now() > due.getTime());
      await addsNothing(redis, async () => {
        assert.equal((await askRaw(open, postText(event('overdue')))).status, 401);
        await eventually(
          'new connections are refused',
          async () => (await gateway.client(one).post(event('overdue'))).status === 401,
        );
      });
      assert.ok((await gateway.metric('ingest_tls_certificate_expiry_seconds', { file: 'crl' })) <= 0);
      assert.equal((await askRaw(open, requestText('GET /health/live'))).status, 200);
      const next = await pki.authority.revocationList([]);
      await change(gateway, () => pki.write('crl.pem', next));
      assert.equal((await gateway.client(one).post(event('again'))).status, 202);
    },
  );
});
