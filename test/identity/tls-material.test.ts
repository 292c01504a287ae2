import assert from 'node:assert/strict';
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { loadTlsMaterial, tlsReloadable, type TlsFiles, type TlsMaterial } from '../../lib/identity/tls-material.ts';
import { StartFailure } from '../../lib/process/program.ts';
import { keepingLog } from '../support/gateway-in-process.ts';
import { atEnd, temporaryFolder } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const load = (files: TlsFiles): Promise<TlsMaterial> => loadTlsMaterial(files, SYSTEM.clock.epochMs());

const HOUR_MS = 3_600_000;
/** The next whole second, because certificate times have no fractions. */
const NEXT_SECOND_MS = Math.ceil(Date.now() / 1000) * 1000;
const soon = (hours: number): Date => new Date(NEXT_SECOND_MS + hours * HOUR_MS);

const folder = temporaryFolder();
const write = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};
const root = new CertificateAuthority('root');
const second = new CertificateAuthority('second root', 1);
const server = await root.issue({ commonName: 'localhost', server: true, notAfter: soon(5) });
const earlier = await root.issue({ commonName: 'localhost', server: true, notAfter: soon(4) });
const [good, revoked, ofSecond] = await Promise.all([
  root.issue({ commonName: 'good' }),
  root.issue({ commonName: 'revoked' }),
  second.issue({ commonName: 'good' }),
]);

const FILES: TlsFiles = {
  cert: write('server.pem', server.certificate),
  key: write('server-key.pem', server.key),
  clientCa: write('ca.pem', root.certificate),
};
const endMs = (pem: string): number => new X509Certificate(pem).validToDate.getTime();
const withList = async (text: string | Promise<string>): Promise<TlsFiles> => ({
  ...FILES,
  clientCrl: write('crl.pem', await text),
});

async function judged({ trust }: TlsMaterial, { certificate }: { readonly certificate: string }): Promise<string> {
  return (await trust.untilMs(new X509Certificate(certificate), Date.now())) > Date.now() ? 'trusted' : 'refused';
}

async function refusal(files: TlsFiles): Promise<string> {
  const refused: unknown = await load(files).catch((cause: unknown) => cause);
  assert.ok(refused instanceof StartFailure && refused.exitCode === 2, String(refused));
  return refused.message;
}

describe('TLS material', () => {
  it('expires with the first certificate of a file that expires', async () => {
    const files = {
      ...FILES,
      cert: write('chain.pem', server.certificate + earlier.certificate),
      clientCa: write('two.pem', root.certificate + second.certificate),
    };
    const material = await load(files);
    assert.deepEqual(material.expiry, [
      { file: 'cert', atMs: endMs(earlier.certificate) },
      { file: 'client_ca', atMs: endMs(second.certificate) },
    ]);
    assert.deepEqual([await judged(material, good), await judged(material, ofSecond)], ['trusted', 'trusted']);
  });

  it('reads certificates under every label that OpenSSL accepts, with other text around them', async () => {
    for (const label of ['TRUSTED CERTIFICATE', 'X509 CERTIFICATE']) {
      const text = `subject=second root\n${second.certificate.replaceAll(' CERTIFICATE', ` ${label}`)}the end\n`;
      const material = await load({ ...FILES, clientCa: write('labelled.pem', root.certificate + text) });
      assert.deepEqual([await judged(material, good), await judged(material, ofSecond)], ['trusted', 'trusted'], label);
    }
  });
});

describe('unusable TLS files are refused', () => {
  const missing = join(folder, 'missing.pem');
  const text = write('text.pem', 'no PEM');
  const broken = write('broken.pem', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');

  it('all together, with a line and the key for each', async () => {
    const lines = (await refusal({ cert: missing, key: text, clientCa: broken, clientCrl: missing })).split('\n');
    const paths = { CERT: missing, KEY: text, CLIENT_CA: broken, CLIENT_CRL: missing };
    for (const [at, [key, path]] of Object.entries(paths).entries())
      assert.ok(lines[at]?.startsWith(`INGEST_TLS_${key}="${path}": `));
    assert.equal(lines.length, 4);
  });

  it('if the certificate does not belong to the key', async () => {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    for (const pem of [good.key, String(privateKey.export({ type: 'pkcs8', format: 'pem' }))]) {
      const key = write('wrong-key.pem', pem);
      const names = `INGEST_TLS_CERT="${FILES.cert}", INGEST_TLS_KEY="${key}"`;
      assert.ok((await refusal({ ...FILES, key })).startsWith(`${names}: `));
    }
  });
});

it('TLS files that change are refused if they have expired, contradict each other or are incomplete, and the last good ones stay', async () => {
  const files = {
    ...FILES,
    cert: write('watched.pem', server.certificate),
    key: write('watched-key.pem', server.key),
    clientCrl: write('watched-crl.pem', await root.revocationList([])),
  };
  const material = await tlsReloadable(files, SYSTEM.clock);
  const { log, lines } = keepingLog();
  const outcomes: boolean[] = [];
  const clock = new VirtualClock();
  const onOutcome = (good: boolean): void => void outcomes.push(good);
  material.watch({ kind: 'tls', clock, log, onChange: () => undefined, onOutcome });
  atEnd(() => material.stop());
  const reload = async (): Promise<boolean | undefined> => {
    await material.reload();
    return outcomes.at(-1);
  };
  writeFileSync(files.clientCrl, await root.revocationList([revoked.serial]));
  assert.equal(await reload(), true);
  assert.equal(await judged(material.value, revoked), 'refused');
  writeFileSync(files.cert, earlier.certificate);
  assert.equal(await reload(), false, 'the key belongs to the other certificate');
  writeFileSync(files.key, earlier.key);
  assert.equal(await reload(), true);
  assert.equal(material.value.context.cert, earlier.certificate);
  const ended = await root.issue({ commonName: 'localhost', server: true, notAfter: new Date(Date.now() - 5_000) });
  writeFileSync(files.key, ended.key);
  writeFileSync(files.cert, ended.certificate);
  assert.equal(await reload(), false);
  assert.equal(lines.at(-1)?.['reason'], `INGEST_TLS_CERT=${JSON.stringify(files.cert)}: it has expired`);
  rmSync(files.clientCrl);
  assert.equal(await reload(), false, 'a missing list does not admit the revoked again');
  assert.equal(await judged(material.value, revoked), 'refused');
});

describe('revocation lists', () => {
  it('are required for every root and intermediate that has not expired, and a missing one is named', async () => {
    const department = await root.intermediate('department');
    const ended = new CertificateAuthority('ended', -1);
    const authorities = root.certificate + second.certificate + department.certificate + ended.certificate;
    const clientCa = write('authorities.pem', authorities);
    const lists = await Promise.all([root, second, department].map((one) => one.revocationList([])));
    const [ofRoot, ofSecond, ofDepartment] = lists as [string, string, string];
    for (const [given, name] of [
      [ofRoot, 'CN=second root'],
      [ofRoot + ofSecond, 'CN=department'],
      [ofRoot + ofDepartment, 'CN=second root'],
      [ofSecond + ofDepartment, 'CN=root'],
    ] as const) {
      const text = await refusal({ ...(await withList(given)), clientCa });
      assert.ok(text.startsWith('INGEST_TLS_CLIENT_CRL=') && text.includes(`"${name}"`), text);
    }
    await load({ ...(await withList(lists.join(''))), clientCa });
  });

  it('apply to a renewed authority, but not to another name or to a certificate that may not sign lists', async () => {
    const list = await withList(root.revocationList([]));
    const renewed = write('renewed.pem', root.certificate + root.again());
    await load({ ...list, clientCa: renewed });
    const renamed = root.again({ commonName: 'renamed' });
    const signsNone = root.again({ signsLists: false });
    for (const text of [renamed, root.certificate + renamed, renamed + root.certificate, signsNone])
      assert.match(await refusal({ ...list, clientCa: write('renamed.pem', text) }), /^INGEST_TLS_CLIENT_C/);
  });

  it('that are not valid yet are refused, because OpenSSL would refuse every producer', async () => {
    const files = await withList(root.revocationList([], { thisUpdate: soon(1) }));
    assert.match(await refusal(files), /^INGEST_TLS_CLIENT_CRL=.*CN=root.*CRL_NOT_YET_VALID/);
  });

  it('expire in 2049 if they say 49', async () => {
    const nextUpdate = new Date('2049-12-31T23:59:59Z');
    const { expiry } = await load(await withList(root.revocationList([], { nextUpdate })));
    assert.deepEqual(expiry[2], { file: 'crl', atMs: nextUpdate.getTime() });
  });

  it('revoke what each names, and expire with the first authority whose latest list expires', async () => {
    const ended = new CertificateAuthority('ended', -1);
    const lists = await Promise.all([
      root.revocationList([revoked.serial], { nextUpdate: soon(1) }),
      root.revocationList([revoked.serial], { nextUpdate: soon(3) }),
      second.revocationList([good.serial], { nextUpdate: soon(2) }),
      ended.revocationList([], { nextUpdate: new Date(Date.now() - HOUR_MS) }),
    ]);
    const clientCa = write('three.pem', root.certificate + second.certificate + ended.certificate);
    const material = await load({ ...(await withList(lists.join('\n'))), clientCa });
    assert.equal((material.context.crl as string[]).length, 4, 'node reads one list of a string');
    assert.deepEqual([await judged(material, good), await judged(material, revoked)], ['trusted', 'refused']);
    assert.deepEqual(material.expiry[2], { file: 'crl', atMs: soon(2).getTime() });
  });
});
