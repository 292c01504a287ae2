// TLS files that change at run time: the good ones are taken into use, and the last good ones stay.
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { NamedClientsTls } from '../../lib/identity/accepted-client.ts';
import { CertificateAuthority } from '../../lib/identity/certificate-authority.ts';
import { tlsPaths, watchTlsMaterial, type TlsFiles, type TlsMaterial } from '../../lib/identity/tls-material.ts';
import { lookAt } from '../../lib/process/file-watch.ts';
import { createLog, type Log } from '../../lib/process/log.ts';
import { temporaryFolder } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const folder = temporaryFolder();
const write = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};
const root = await CertificateAuthority.create(SYSTEM, 'root');
const server = await root.issue({ commonName: 'localhost', server: true });
const other = await root.issue({ commonName: 'localhost', server: true });
const revoked = await root.issue({ commonName: 'revoked' });

const FILES: TlsFiles = {
  cert: write('server.pem', server.certificate),
  key: write('server-key.pem', server.key),
  clientCa: write('ca.pem', root.certificate),
};

function judged({ trust }: TlsMaterial, { certificate }: { readonly certificate: string }): string {
  const verdict = trust.judge(new X509Certificate(certificate), false, Date.now());
  return verdict.trusted ? 'trusted' : verdict.why;
}

describe('TLS files that change', () => {
  it('are taken into use once they are good, and the last good ones stay while they are not', async (t) => {
    const taken: TlsMaterial[] = [];
    let refusals = 0;
    const lines: (readonly [fields: unknown, text: string])[] = [];
    const tell = (fields: unknown, text: string): unknown => lines.push([fields, text]);
    const files: TlsFiles = {
      ...FILES,
      cert: write('watched.pem', server.certificate),
      key: write('watched-key.pem', server.key),
      clientCrl: write('watched-crl.pem', await root.revocationList([])),
    };
    const watch = watchTlsMaterial({
      clock: SYSTEM.clock,
      files,
      before: await lookAt(tlsPaths(files)),
      log: { info: tell, error: tell } as unknown as Log,
      onChange: (material) => taken.push(material),
      onRefused: () => (refusals += 1),
    });
    t.after(() => watch.stop());
    /** A change counts once two looks agree. */
    const look = async (): Promise<readonly [number, number]> => {
      for (let looks = 0; looks < 2; looks += 1) await watch.now(false);
      return [taken.length, refusals];
    };
    assert.deepEqual(await look(), [0, 0]);
    writeFileSync(files.clientCrl ?? '', await root.revocationList([revoked.serial]));
    assert.deepEqual(await look(), [1, 0]);
    assert.equal(judged(taken[0] as TlsMaterial, revoked), 'revoked');
    const ends = (pem: string): string => new X509Certificate(pem).validToDate.toISOString();
    const { expiry } = taken[0] ?? assert.fail();
    assert.deepEqual(lines, [
      [
        {
          expiry: [
            { file: 'cert', at: ends(server.certificate) },
            { file: 'client_ca', at: ends(root.certificate) },
            { file: 'crl', at: new Date(expiry[2]?.atMs ?? 0).toISOString() },
          ],
        },
        'TLS material changed and is in use',
      ],
    ]);
    writeFileSync(files.cert, other.certificate);
    assert.deepEqual(await look(), [1, 1], 'the key is another');
    writeFileSync(files.key, other.key);
    assert.deepEqual(await look(), [2, 1]);
    assert.equal(taken[1]?.context.cert, other.certificate);
    const ended = await root.issue({ commonName: 'localhost', server: true, notAfter: new Date(Date.now() - 5_000) });
    writeFileSync(files.key, ended.key);
    writeFileSync(files.cert, ended.certificate);
    assert.deepEqual(await look(), [2, 2], 'it has ended');
    assert.deepEqual(lines.at(-1), [
      { reason: `INGEST_TLS_CERT=${JSON.stringify(files.cert)}: it has expired` },
      'changed TLS material refused; the last good stays',
    ]);
    rmSync(files.clientCrl ?? '');
    assert.deepEqual(await look(), [2, 3], 'a list that is gone does not admit the revoked again');
  });

  it('are loaded again at once on demand, changed or not', async (t) => {
    const taken: TlsMaterial[] = [];
    const log = createLog('test', 'error').child({}, { level: 'silent' });
    const watch = watchTlsMaterial({
      clock: SYSTEM.clock,
      files: FILES,
      before: await lookAt(tlsPaths(FILES)),
      log,
      onChange: (material) => taken.push(material),
      onRefused: () => assert.fail('they are good'),
    });
    t.after(() => watch.stop());
    await watch.now(true);
    assert.equal(taken.length, 1);
  });
});

describe('the TLS files of a server that knows its clients by name', () => {
  /** What is asked of a connection, as TLSSocket has it. */
  const socketOf = ({ certificate }: { readonly certificate: string }): TLSSocket =>
    ({ getPeerX509Certificate: () => new X509Certificate(certificate), authorized: true }) as unknown as TLSSocket;

  it('say who is admitted by the trust that is in use now, and when they expire', async (t) => {
    const [gateway, stranger] = await Promise.all(
      ['gateway', 'stranger'].map((commonName) => root.issue({ commonName })),
    );
    assert.ok(gateway !== undefined && stranger !== undefined);
    const files = {
      ...FILES,
      clientCrl: write('named-crl.pem', await root.revocationList([])),
      clients: ['gateway', 'revoked'],
    };
    const clock = new VirtualClock();
    clock.jump(Date.now() - clock.epochMs());
    const tls = await NamedClientsTls.read(files, clock);
    assert.equal(tls.context.cert, server.certificate);
    assert.equal(tls.refusal(socketOf(gateway)), undefined);
    assert.equal(tls.refusal(socketOf(revoked)), undefined);
    assert.match(tls.refusal(socketOf(stranger)) ?? '', /no name in the client certificate/);
    const before = tls.expiry;
    assert.deepEqual(
      before.map(({ labels }) => labels.file),
      ['cert', 'client_ca', 'crl'],
    );
    clock.jump(10_000);
    assert.deepEqual(
      tls.expiry.map(({ value }) => value),
      before.map(({ value }) => value - 10),
    );
    const seen: string[] = [];
    const log = createLog('test', 'error').child({}, { level: 'silent' });
    const watch = tls.watch(
      log,
      () => seen.push(String(tls.refusal(socketOf(revoked)))),
      () => seen.push('refused'),
    );
    t.after(() => watch.stop());
    writeFileSync(files.clientCrl, await root.revocationList([revoked.serial]));
    for (let looks = 0; looks < 2; looks += 1) await watch.now(false);
    assert.deepEqual(seen, ['the client certificate is not accepted (revoked)']);
    assert.equal(tls.refusal(socketOf(gateway)), undefined);
    writeFileSync(files.clientCrl, 'no list');
    for (let looks = 0; looks < 2; looks += 1) await watch.now(false);
    assert.equal(seen.at(-1), 'refused');
    assert.match(tls.refusal(socketOf(revoked)) ?? '', /revoked/);
  });
});
