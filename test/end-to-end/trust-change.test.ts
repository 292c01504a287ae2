// Certificates, keys, authorities and revocation lists change while producers keep sending: those who stay notice
// nothing, those who lose their trust are out within 2 s.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, it } from 'node:test';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { event, PATIENT, TestGateway, type RawConnection } from '../support/gateway.ts';
import { Pki, anotherCertificate, AUDIENCE_URI, excludesHost, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { addsNothing, assertAlive, assertProblem } from '../support/verdicts.ts';
import { SYSTEM } from '../support/system.ts';
import { Load } from '../support/load.ts';
import { Program } from '../support/program.ts';
import { askRaw, postText, requestText } from '../support/wire.ts';

let redis: TestRedis;

before(async () => {
  redis = await TestRedis.start();
});

async function startGateway(pki: Pki, env: Readonly<Record<string, string>> = {}): Promise<TestGateway> {
  const gateway = await TestGateway.start(redis, pki, { ...PATIENT, ...env });
  atEnd(() => assertAlive(gateway));
  return gateway;
}

/** Writes files and waits until the gateway has taken them into use. */
async function change(gateway: TestGateway, write: () => void): Promise<void> {
  const before = await gateway.metric('ingest_reloads_total');
  write();
  await eventually('the change is in use', async () => (await gateway.metric('ingest_reloads_total')) > before);
}

/** Writes files that are no good and waits until the gateway has refused them. */
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

/** Files that are no good, by what is wrong with them. */
type BadFile =
  | 'a key of another certificate'
  | 'no certificate'
  | 'an empty authorities file'
  | 'a list cut in the middle'
  | 'an empty list'
  | "a stranger's list"
  | 'a list that is overdue'
  | 'an authority without a list';

/** Each of them is refused, logged and counted, and the last good one stays. */
async function refusesFiles(names: readonly BadFile[]): Promise<void> {
  const pki = await Pki.create();
  const revoked = await pki.producer('revoked');
  const list = await pki.authority.revocationList([revoked.serial]);
  const gateway = await startGateway(pki, { INGEST_TLS_CLIENT_CRL: pki.write('crl.pem', list) });
  const client = gateway.client(await pki.producer('one'));
  const served = await servedSerial(gateway, pki.authority.certificate);
  const stranger = await CertificateAuthority.create(SYSTEM, 'stranger');
  const expired = await pki.authority.issue({
    commonName: 'localhost',
    dnsNames: ['localhost'],
    server: true,
    notAfter: new Date(Date.now() - 1_000),
  });
  const bad: Readonly<Record<BadFile, readonly [file: string, content: string]>> = {
    'a key of another certificate': ['server-key.pem', expired.key],
    'no certificate': ['server.pem', 'nothing'],
    'an empty authorities file': ['ca.pem', ''],
    'a list cut in the middle': ['crl.pem', list.slice(0, list.length / 2)],
    'an empty list': ['crl.pem', ''],
    "a stranger's list": ['crl.pem', await stranger.revocationList([])],
    'an authority without a list': ['ca.pem', pki.authority.certificate + stranger.certificate],
    'a list that is overdue': [
      'crl.pem',
      await pki.authority.revocationList([], { nextUpdate: new Date(Date.now() - 1_000) }),
    ],
  };
  for (const name of names) {
    const [file, content] = bad[name];
    const good = readFileSync(pki.path(file), 'utf8');
    await badChange(gateway, () => pki.write(file, content));
    assert.equal((await client.post(event(name))).status, 202, name);
    assert.equal(await servedSerial(gateway, pki.authority.certificate), served, name);
    await addsNothing(redis, async () =>
      assertProblem(await gateway.client(revoked).post(event(name)), 401, 'UNAUTHORIZED_PRODUCER'),
    );
    await change(gateway, () => pki.write(file, good));
  }
  const refused = gateway.lines.filter((line) => line.includes('changed files refused'));
  assert.ok(refused.length >= names.length);
  if (names.includes('an authority without a list')) assert.match(refused.join(), /missing: \\+"CN=stranger/);
  for (const line of refused) assert.match(line, /"level":"error".*"reason":"(INGEST_TLS_|the new crl)/);
}

describe('under load', () => {
  it('server certificate, key, authorities and revocation list change without one failed request, and the revoked are out soon', async (t) => {
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

  /** From some moment on the load is told 401 and nothing else. */
  async function addsNothingOf(leaving: Load): Promise<void> {
    await eventually('the revoked are told so', () => leaving.replies.at(-1)?.status === 401);
    const accepted = leaving.accepted.length;
    await leaving.more(20);
    assert.equal(leaving.accepted.length, accepted);
  }

  it('producers of an authority that is taken out are out', { tags: ['long'] }, async () => {
    const pki = await Pki.create();
    const second = await CertificateAuthority.create(SYSTEM, 'second authority');
    pki.write('ca.pem', pki.authority.certificate + second.certificate);
    const gateway = await startGateway(pki);
    const issued = await second.issue({ commonName: 'theirs', uris: ['urn:test:producer:theirs', AUDIENCE_URI] });
    const [stays, leaves] = [
      await gateway.socket(await pki.producer('stays')),
      await gateway.socket({ cert: issued.certificate, key: issued.key, serial: '' }),
    ];
    assert.equal((await askRaw(leaves, postText(event('taken-out')))).status, 202);
    pki.write('ca.pem', pki.authority.certificate);
    await eventually('the connection is closed', () => leaves.closed);
    assert.equal((await askRaw(stays, postText(event('left-in')))).status, 202);
  });

  it(
    'all producers of an authority that is issued again, with its key and name constraints, are out, and those that it permits come again',
    { tags: ['long'] },
    async () => {
      const pki = await Pki.create();
      const gateway = await startGateway(pki);
      const [permitted, excluded] = await Promise.all(
        ['shop.test', 'bank.test'].map((host) => pki.producer(host, { uris: [AUDIENCE_URI], dnsNames: [host] })),
      );
      const open = await Promise.all([gateway.socket(permitted), gateway.socket(excluded)]);
      assert.equal((await askRaw(open[1], postText(event('still-in')))).status, 202);
      const constrained = await anotherCertificate(pki.authority, { extensions: [excludesHost('bank.test')] });
      pki.write('ca.pem', constrained);
      await eventually('both connections are closed', () => open.every(({ closed }) => closed));
      assert.equal((await gateway.client(permitted).post(event('not-excluded'))).status, 202);
      assertProblem(await gateway.client(excluded).post(event('excluded')), 401, 'UNAUTHORIZED_PRODUCER');
    },
  );

  it(
    'a client of a removed authority does not come in by a handshake begun before, with a second connection from its port',
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

  it(
    'a producer below an intermediate that only it has stays while the authorities do, and may come again when they have changed',
    { tags: ['long'] },
    async () => {
      const pki = await Pki.create();
      const department = await pki.authority.intermediate('department');
      const gateway = await startGateway(pki);
      const issued = await department.issue({ commonName: 'member', uris: ['urn:test:producer:member', AUDIENCE_URI] });
      const certificate = { cert: issued.certificate + department.certificate, key: issued.key, serial: '' };
      const member = await gateway.socket(certificate);
      assert.equal((await askRaw(member, postText(event('member-1')))).status, 202);
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
      assert.equal((await askRaw(member, postText(event('member-2')))).status, 202);
      const second = await CertificateAuthority.create(SYSTEM, 'second authority');
      await change(gateway, () => pki.write('ca.pem', pki.authority.certificate + second.certificate));
      assert.equal((await gateway.client(certificate).post(event('member-3'))).status, 202);
      await change(gateway, () => pki.write('ca.pem', second.certificate));
      await eventually('the connection is closed', () => member.closed);
      await addsNothing(redis, async () =>
        assertProblem(await gateway.client(certificate).post(event('member-4')), 401, 'UNAUTHORIZED_PRODUCER'),
      );
    },
  );

  it('a revoked intermediate puts out the producers below it', { tags: ['long'] }, async () => {
    const pki = await Pki.create();
    const department = await pki.authority.intermediate('department');
    pki.write('ca.pem', pki.authority.certificate + department.certificate);
    const lists = async (revoked: readonly string[]): Promise<string> =>
      (await pki.authority.revocationList(revoked)) + (await department.revocationList([]));
    const gateway = await startGateway(pki, { INGEST_TLS_CLIENT_CRL: pki.write('crl.pem', await lists([])) });
    const issued = await department.issue({ commonName: 'member', uris: ['urn:test:producer:member', AUDIENCE_URI] });
    const member = await gateway.socket({ cert: issued.certificate, key: issued.key, serial: '' });
    assert.equal((await askRaw(member, postText(event('member')))).status, 202);
    pki.write('crl.pem', await lists([new X509Certificate(department.certificate).serialNumber]));
    await eventually('the connection is closed', () => member.closed);
  });
});

describe('new files that are no good', () => {
  it('are refused, logged and counted, and the last good ones stay', () =>
    refusesFiles(['a key of another certificate', 'a list cut in the middle', 'an authority without a list']));

  it(
    'are not good for --check either: an authority without a revocation list ends it with exit 2',
    { tags: ['long'] },
    async () => {
      const pki = await Pki.create();
      const stranger = await CertificateAuthority.create(SYSTEM, 'stranger');
      pki.write('ca.pem', pki.authority.certificate + stranger.certificate);
      const crl = pki.write('crl.pem', await pki.authority.revocationList([]));
      const env = { ...pki.environment, INGEST_QUEUE_URI: 'redis://127.0.0.1:1', INGEST_TLS_CLIENT_CRL: crl };
      const program = new Program('ingest-gateway', { env, args: ['--check'] });
      assert.equal(await program.ended, 2);
      assert.match(program.output, /INGEST_TLS_CLIENT_CRL=.*missing: "CN=stranger"/);
    },
  );

  it('in any other way are refused, logged and counted too', { tags: ['long'] }, () =>
    refusesFiles([
      ...(['no certificate', 'an empty authorities file', 'an empty list', "a stranger's list"] as const),
      'a list that is overdue',
    ]),
  );
});

describe('SIGHUP', () => {
  it('loads the files again at once', { tags: ['long'] }, async () => {
    const pki = await Pki.create();
    const gateway = await startGateway(pki);
    const before = await gateway.metric('ingest_reloads_total');
    gateway.signal('SIGHUP');
    await eventually('the files are loaded again', async () => (await gateway.metric('ingest_reloads_total')) > before);
    assert.ok(gateway.output.includes('SIGHUP'));
    assert.equal((await gateway.client(await pki.producer('one')).post(event('after-sighup'))).status, 202);
  });
});

describe('a revocation list that becomes overdue', { tags: ['long'] }, () => {
  it(
    'refuses everyone, says so beforehand in a metric, and a new list lets them in again',
    { tags: ['long'] },
    async () => {
      const pki = await Pki.create();
      const gateway = await startGateway(pki, {
        INGEST_TLS_CLIENT_CRL: pki.write('crl.pem', await pki.authority.revocationList([])),
      });
      const one = await pki.producer('one');
      const open = await gateway.socket(one);
      // In this time a busy machine takes the list into use, and asks twice.
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
