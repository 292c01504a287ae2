// test/identity has the verdicts on changed files; these cases hold connections while the files change.
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { CertificateAuthority, LOCALHOST } from '../support/certificate-authority.ts';
import { event, TestGateway } from '../support/gateway.ts';
import { Load } from '../support/load.ts';
import { AUDIENCE_URI, Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { assertAlive } from '../support/verdicts.ts';
import { askRaw, postText } from '../support/wire.ts';

const redis = await TestRedis.start();

async function change(gateway: TestGateway, write: () => void): Promise<void> {
  const before = await gateway.metric('ingest_reloads_total');
  write();
  await eventually('the change is in use', async () => (await gateway.metric('ingest_reloads_total')) > before);
}

async function newcomerOf(authority: CertificateAuthority): Promise<ClientCertificate> {
  const names = { commonName: 'newcomer', uris: ['urn:test:producer:newcomer', AUDIENCE_URI] };
  const { certificate, key, serial } = await authority.issue(names);
  return { cert: certificate, key, serial };
}

describe('under load', () => {
  it('server certificate, authorities and revocation list change without a failed request, and revoked producers are disconnected soon', async () => {
    const pki = await Pki.create();
    const crl = pki.write('crl.pem', await pki.authority.revocationList([]));
    const gateway = await TestGateway.start(redis, pki, { INGEST_TLS_CLIENT_CRL: crl });
    const [stays, leaves] = await Promise.all([pki.producer('stays'), pki.producer('leaves')]);
    const load = new Load(gateway.client(stays), 'stays', 8, 5);
    const leaving = new Load(gateway.client(leaves), 'leaves', 4, 5);
    await load.more(50);

    const renewed = await pki.authority.issue(LOCALHOST);
    await change(gateway, () => {
      pki.write('server.pem', renewed.certificate);
      pki.write('server-key.pem', renewed.key);
    });
    const { socket } = await gateway.socket();
    assert.equal(socket.getPeerX509Certificate()?.serialNumber, new X509Certificate(renewed.certificate).serialNumber);
    await load.more(50);

    const second = new CertificateAuthority('second authority');
    const secondList = await second.revocationList([]);
    await change(gateway, () => {
      pki.write('ca.pem', pki.authority.certificate + second.certificate);
      pki.write('crl.pem', readFileSync(crl, 'utf8') + secondList);
    });
    assert.equal((await gateway.client(await newcomerOf(second)).post(event('newcomer'))).status, 202);
    await load.more(50);
    assert.deepEqual([leaving.statuses, leaving.errors], [[202], []]);

    const [idle, silent, staysIdle] = [
      await gateway.socket(leaves),
      await gateway.socket(leaves),
      await gateway.socket(stays),
    ];
    assert.equal((await askRaw(idle, postText(event('idle')))).status, 202);
    pki.write('crl.pem', (await pki.authority.revocationList([leaves.serial])) + secondList);
    await eventually('both are closed', () => idle.closed && silent.closed);
    await eventually('the revoked are told so', () => leaving.statuses.includes(401));
    const accepted = leaving.accepted.size;
    await leaving.more(20);
    await load.more(50);
    await Promise.all([load.stop(), leaving.stop()]);
    assert.equal(leaving.accepted.size, accepted);
    assert.deepEqual([load.statuses, load.errors], [[202], []]);
    assert.equal((await askRaw(staysIdle, postText(event('stays-idle')))).status, 202);
    await assertAlive(gateway);
  });
});
