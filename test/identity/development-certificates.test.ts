import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { developmentCertificates, producerCertificate } from '../../lib/identity/development-certificates.ts';
import { audienceUri } from '../../lib/identity/producer-identity.ts';
import { temporaryFolder } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

const FIRST = audienceUri('first');
const DAY_MS = 86_400_000;
const OPENSSL = execFileSync(new URL('../../bin/ensure-command', import.meta.url).pathname, ['openssl', 'openssl'], {
  encoding: 'utf8',
}).trim();

const names = (path: string): string => new X509Certificate(readFileSync(path)).subjectAltName ?? '';

const made = (folder: string, audience = FIRST) => developmentCertificates(folder, audience, SYSTEM.clock);

describe('development certificates', () => {
  it('are made in the state folder, with the audience, and with keys that only the owner can read', async () => {
    const folder = temporaryFolder();
    const files = await made(`${folder}/state`);
    assert.equal(names(files.producerCert), `URI:urn:ingest:producer:development, URI:${FIRST}`);
    assert.equal(names(files.cert), 'DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1');
    for (const key of [files.key, files.producerKey, join(folder, 'state/tls/ca-key.pem')])
      assert.equal(statSync(key).mode & 0o777, 0o600, key);
    // Python verifies strictly, too.
    for (const [certificate, purpose] of [
      [files.cert, 'sslserver'],
      [files.producerCert, 'sslclient'],
    ] as const) {
      const args = ['verify', '-x509_strict', '-purpose', purpose, '-CAfile', files.clientCa, certificate];
      assert.match(execFileSync(OPENSSL, args, { stdio: 'pipe', encoding: 'utf8' }), /: OK\n$/);
    }
  });

  it('are kept for the same audience, and made again for another one', async () => {
    const folder = temporaryFolder();
    const files = await made(folder);
    const before = readFileSync(files.producerCert);
    await made(folder);
    assert.deepEqual(readFileSync(files.producerCert), before);
    for (const audience of ['second', 'firs', 'FIRST', 'a+#$=;b']) {
      await made(folder, audienceUri(audience));
      assert.equal(names(files.producerCert), `URI:urn:ingest:producer:development, URI:${audienceUri(audience)}`);
    }
  });

  it('are made again if a file is missing', async () => {
    const folder = temporaryFolder();
    for (const file of ['clientCa', 'cert', 'key', 'producerCert', 'producerKey'] as const) {
      const files = await made(folder);
      const before = readFileSync(files.clientCa);
      rmSync(files[file]);
      await made(folder);
      assert.notDeepEqual(readFileSync(files.clientCa), before, file);
      readFileSync(files[file]);
    }
  });

  for (const file of ['cert', 'producerCert'] as const)
    it(`are made again if ${file} expires within a week or is signed by another authority`, async () => {
      const folder = temporaryFolder();
      const authority = await CertificateAuthority.create(SYSTEM, 'development');
      const issue = async (days: number): Promise<string> => {
        const notAfter = new Date(Date.now() + days * DAY_MS);
        return (await authority.issue({ commonName: 'x', uris: ['urn:x', FIRST], notAfter })).certificate;
      };
      const files = await made(folder);
      const foreign = await issue(8);
      writeFileSync(files[file], foreign);
      await made(folder);
      assert.notEqual(readFileSync(files[file], 'utf8'), foreign);
      for (const [days, isKept] of [
        [8, true],
        [6, false],
      ] as const) {
        writeFileSync(files.clientCa, authority.certificate);
        for (const one of [files.cert, files.producerCert]) writeFileSync(one, await issue(8));
        const certificate = await issue(days);
        writeFileSync(files[file], certificate);
        await made(folder);
        assert.equal(readFileSync(files[file], 'utf8') === certificate, isKept);
      }
    });

  it('are complete and identical for processes that start together', async () => {
    const folder = temporaryFolder();
    const all = await Promise.all(
      Array.from({ length: 6 }, async () => {
        const { clientCa, producerCert } = await made(folder);
        return [readFileSync(clientCa, 'utf8'), readFileSync(producerCert, 'utf8')] as const;
      }),
    );
    const [ca = '', producer = ''] = all[0] ?? [];
    assert.ok(new X509Certificate(producer).verify(new X509Certificate(ca).publicKey));
    for (const other of all) assert.deepEqual(other, [ca, producer]);
    assert.deepEqual(readdirSync(folder), ['tls']);
  });

  it('are not made while another process holds the lock, unless it was killed', async () => {
    const folder = temporaryFolder();
    const lock = join(folder, 'tls.lock');
    mkdirSync(lock);
    const waiting = made(folder);
    await new Promise((resolve) => setTimeout(resolve, 100)); // Nothing signals that no file was written.
    assert.deepEqual(readdirSync(folder), ['tls.lock']);
    utimesSync(lock, new Date(0), new Date(0));
    await waiting;
    assert.deepEqual(readdirSync(folder), ['tls']);
  });
});

describe('a failure to make development certificates', () => {
  it('leaves no files and no lock, and its message is one sentence', async () => {
    const folder = temporaryFolder();
    await assert.rejects(made(folder, 'urn:x\n[unfinished'), /^Error: development certificates cannot be made: .*$/);
    assert.deepEqual(readdirSync(folder), []);
    await made(folder);
    assert.deepEqual(readdirSync(folder), ['tls']);
  });

  it('reports the path if the lock cannot be created', () =>
    // Not even root can create a folder in /proc/self.
    assert.rejects(made('/proc/self'), { code: 'ENOENT', path: '/proc/self/tls.lock' }));
});

describe('a certificate for another producer', () => {
  it('is issued by the development authority, with its name, the audience, and a key that only the owner can read', async () => {
    const folder = temporaryFolder();
    const { clientCa } = await made(folder);
    const files = await producerCertificate(folder, 'shop', FIRST);
    assert.deepEqual(files, {
      cert: join(folder, 'tls/shop.pem'),
      key: join(folder, 'tls/shop-key.pem'),
      ca: clientCa,
    });
    const certificate = new X509Certificate(readFileSync(files.cert));
    assert.equal(certificate.subjectAltName, `URI:urn:ingest:producer:shop, URI:${FIRST}`);
    assert.ok(certificate.verify(new X509Certificate(readFileSync(clientCa)).publicKey));
    assert.ok(certificate.checkPrivateKey(createPrivateKey(readFileSync(files.key))));
    assert.equal(statSync(files.key).mode & 0o777, 0o600);
  });

  it('is refused if the authority or its key does not exist', async () => {
    const folder = temporaryFolder();
    await assert.rejects(producerCertificate(folder, 'shop', FIRST), { message: /tls holds no development authority/ });
    await made(folder);
    rmSync(join(folder, 'tls/ca-key.pem'));
    await assert.rejects(producerCertificate(folder, 'shop', FIRST), { message: /tls holds no development authority/ });
  });

  it('is refused for a name whose files belong to another certificate', async () => {
    const folder = temporaryFolder();
    await made(folder);
    const contents = (): string[] =>
      readdirSync(join(folder, 'tls')).map((file) => readFileSync(join(folder, 'tls', file), 'utf8'));
    const before = contents();
    for (const name of ['ca', 'server', 'producer', 'ca-key', 'server-key', 'producer-key', 'shop-key'])
      await assert.rejects(producerCertificate(folder, name, FIRST), { message: /cannot be used/ }, name);
    assert.deepEqual(contents(), before);
    for (const name of ['cat', 'web-server', 'key', 'two-keys']) await producerCertificate(folder, name, FIRST);
  });
});
