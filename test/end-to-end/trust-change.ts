// Files of a gateway's trust that change while it runs: what the cases of trust-change.test.ts and trust-change.long.ts
// share.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before } from 'node:test';
import { CertificateAuthority } from '../../lib/identity/certificate-authority.ts';
import { event, PATIENT, TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { addsNothing, assertAlive, assertProblem } from '../support/verdicts.ts';
import { SYSTEM } from '../support/system.ts';

export let redis: TestRedis;

before(async () => {
  redis = await TestRedis.start();
});

export async function startGateway(pki: Pki, env: Readonly<Record<string, string>> = {}): Promise<TestGateway> {
  const gateway = await TestGateway.start(redis, pki, { ...PATIENT, ...env });
  atEnd(() => assertAlive(gateway));
  return gateway;
}

/** Writes files and waits until the gateway has taken them into use. */
export async function change(gateway: TestGateway, write: () => void): Promise<void> {
  const before = await gateway.metric('ingest_tls_reloads_total');
  write();
  await eventually('the change is in use', async () => (await gateway.metric('ingest_tls_reloads_total')) > before);
}

/** Writes files that are no good and waits until the gateway has refused them. */
async function badChange(gateway: TestGateway, write: () => void): Promise<void> {
  const before = await gateway.metric('ingest_tls_reload_failures_total');
  write();
  await eventually(
    'the change is refused',
    async () => (await gateway.metric('ingest_tls_reload_failures_total')) > before,
  );
}

export async function servedSerial(gateway: TestGateway, ca: string): Promise<string | undefined> {
  const connection = await gateway.socket(undefined, { ca });
  const serial = connection.socket.getPeerX509Certificate()?.serialNumber;
  connection.socket.destroy();
  return serial;
}

/** Files that are no good, by what is wrong with them. */
export type BadFile =
  | 'a key of another certificate'
  | 'no certificate'
  | 'an empty authorities file'
  | 'a list cut in the middle'
  | 'an empty list'
  | "a stranger's list"
  | 'a list that is overdue'
  | 'an authority without a list';

/** Each of them is refused, logged and counted, and the last good one stays. */
export async function refusesFiles(names: readonly BadFile[]): Promise<void> {
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
  const refused = gateway.lines.filter((line) => line.includes('changed TLS material refused'));
  assert.ok(refused.length >= names.length);
  if (names.includes('an authority without a list')) assert.match(refused.join(), /missing: \\+"CN=stranger/);
  for (const line of refused) assert.match(line, /"level":"error".*"reason":"(INGEST_TLS_|the new crl)/);
}
