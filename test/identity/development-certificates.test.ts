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

describe('development certificates', () => {
  it('are made in the state folder, with the audience, and with keys that only the owner can read', async () => {
    const folder = temporaryFolder();
    const made = await developmentCertificates(`${folder}/state`, FIRST, SYSTEM.clock);
    assert.equal(names(made.producerCert), `URI:urn:ingest:producer:development, URI:${FIRST}`);
    assert.equal(names(made.cert), 'DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1');
    const [ca, server, producer] = [made.clientCa, made.cert, made.producerCert].map(
      (path) => new X509Certificate(readFileSync(path)),
    );
    assert.deepEqual(
      [ca, server, producer].map((certificate) => certificate?.subject),
      ['CN=ingest development authority', 'CN=localhost', 'CN=development producer'],
    );
    assert.deepEqual([server?.keyUsage, producer?.keyUsage], [['1.3.6.1.5.5.7.3.1'], ['1.3.6.1.5.5.7.3.2']]);
    for (const key of [made.key, made.producerKey, join(folder, 'state/tls/ca-key.pem')])
      assert.equal(statSync(key).mode & 0o777, 0o600, key);
    assert.ok(ca !== undefined && server?.verify(ca.publicKey) && producer?.verify(ca.publicKey));
  });

  it('pass the strict verification of OpenSSL, which Python uses', async () => {
    const made = await developmentCertificates(temporaryFolder(), FIRST, SYSTEM.clock);
    for (const certificate of [made.cert, made.producerCert]) {
      const args = ['verify', '-x509_strict', '-CAfile', made.clientCa, certificate];
      assert.match(execFileSync(OPENSSL, args, { stdio: 'pipe', encoding: 'utf8' }), /: OK\n$/);
    }
  });

  it('are kept for the same audience, and made again for another one', async () => {
    const folder = temporaryFolder();
    const made = await developmentCertificates(folder, FIRST, SYSTEM.clock);
    const before = readFileSync(made.producerCert);
    await developmentCertificates(folder, FIRST, SYSTEM.clock);
    assert.deepEqual(readFileSync(made.producerCert), before);
    for (const audience of ['second', 'firs', 'FIRST', 'a+#$=;b']) {
      await developmentCertificates(folder, audienceUri(audience), SYSTEM.clock);
      assert.equal(names(made.producerCert), `URI:urn:ingest:producer:development, URI:${audienceUri(audience)}`);
    }
  });

  it('are made again if a file is missing', async () => {
    const folder = temporaryFolder();
    for (const file of ['clientCa', 'cert', 'key', 'producerCert', 'producerKey'] as const) {
      const made = await developmentCertificates(folder, FIRST, SYSTEM.clock);
      const before = readFileSync(made.clientCa);
      rmSync(made[file]);
      await developmentCertificates(folder, FIRST, SYSTEM.clock);
      assert.notDeepEqual(readFileSync(made.clientCa), before, file);
      readFileSync(made[file]);
    }
  });

  for (const file of ['cert', 'producerCert'] as const) {
    it(`are made again if ${file} expires within a week or is signed by another authority`, async () => {
      const folder = temporaryFolder();
      const made = await developmentCertificates(folder, FIRST, SYSTEM.clock);
      const other = await CertificateAuthority.create(SYSTEM, 'another');
      const foreign = await other.issue({ commonName: 'x', uris: ['urn:x', FIRST] });
      writeFileSync(made[file], foreign.certificate);
      await developmentCertificates(folder, FIRST, SYSTEM.clock);
      assert.notEqual(readFileSync(made[file], 'utf8'), foreign.certificate);

      const own = temporaryFolder();
      const authority = await CertificateAuthority.create(SYSTEM, 'development');
      const files = await developmentCertificates(own, FIRST, SYSTEM.clock);
      const issue = async (days: number): Promise<string> =>
        (
          await authority.issue({
            commonName: 'x',
            uris: ['urn:x', FIRST],
            notAfter: new Date(Date.now() + days * DAY_MS),
          })
        ).certificate;
      writeFileSync(files.clientCa, authority.certificate);
      writeFileSync(files.cert, await issue(8));
      writeFileSync(files.producerCert, await issue(8));
      const kept = await issue(8);
      writeFileSync(files[file], kept);
      await developmentCertificates(own, FIRST, SYSTEM.clock);
      assert.equal(readFileSync(files[file], 'utf8'), kept);
      const ending = await issue(6);
      writeFileSync(files[file], ending);
      await developmentCertificates(own, FIRST, SYSTEM.clock);
      assert.notEqual(readFileSync(files[file], 'utf8'), ending);
    });
  }

  it('are complete and identical for processes that start together', async () => {
    const folder = temporaryFolder();
    const all = await Promise.all(
      Array.from({ length: 6 }, async () => {
        const { clientCa, producerCert } = await developmentCertificates(folder, FIRST, SYSTEM.clock);
        return [readFileSync(clientCa, 'utf8'), readFileSync(producerCert, 'utf8')] as const;
      }),
    );
    const [ca = '', producer = ''] = all[0] ?? [];
    assert.ok(new X509Certificate(producer).verify(new X509Certificate(ca).publicKey));
    for (const other of all) assert.deepEqual(other, [ca, producer]);
    assert.deepEqual(readdirSync(folder), ['tls']);
  });

  it('are not made while another process holds the lock', async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'tls.lock'));
    const made = developmentCertificates(folder, FIRST, SYSTEM.clock);
    await new Promise((resolve) => setTimeout(resolve, 100)); // Nothing signals that no file was written.
    assert.deepEqual(readdirSync(folder), ['tls.lock']);
    rmSync(join(folder, 'tls.lock'), { recursive: true });
    await made;
    assert.deepEqual(readdirSync(folder), ['tls']);
  });

  it('are made even if a killed process left its lock', async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'tls.lock'));
    utimesSync(join(folder, 'tls.lock'), new Date(0), new Date(0));
    const { clientCa } = await developmentCertificates(folder, FIRST, SYSTEM.clock);
    assert.ok(readFileSync(clientCa, 'utf8').includes('BEGIN CERTIFICATE'));
    assert.deepEqual(readdirSync(folder), ['tls']);
  });
});

describe('a failure to make development certificates', () => {
  it('leaves no files and no lock, and its message is one sentence', async () => {
    const folder = temporaryFolder();
    const failing = developmentCertificates(folder, 'urn:x\n[unfinished', SYSTEM.clock);
    await assert.rejects(failing, /^Error: development certificates cannot be made: .*$/);
    assert.deepEqual(readdirSync(folder), []);
    await developmentCertificates(folder, FIRST, SYSTEM.clock);
    assert.deepEqual(readdirSync(folder), ['tls']);
  });

  it('reports the path if the lock cannot be created', async () => {
    // Not even root can create a folder in /proc/self.
    await assert.rejects(developmentCertificates('/proc/self', FIRST, SYSTEM.clock), {
      code: 'ENOENT',
      path: '/proc/self/tls.lock',
    });
  });
});

describe('a certificate for another producer', () => {
  it('is issued by the development authority, with its name, the audience, and a key that only the owner can read', async () => {
    const folder = temporaryFolder();
    const { clientCa } = await developmentCertificates(folder, FIRST, SYSTEM.clock);
    const made = await producerCertificate(folder, 'shop', FIRST);
    assert.equal(made.ca, clientCa);
    const certificate = new X509Certificate(readFileSync(made.cert));
    assert.equal(certificate.subject, 'CN=shop');
    assert.equal(certificate.subjectAltName, `URI:urn:ingest:producer:shop, URI:${FIRST}`);
    assert.ok(certificate.verify(new X509Certificate(readFileSync(clientCa)).publicKey));
    assert.ok(certificate.checkPrivateKey(createPrivateKey(readFileSync(made.key))));
    assert.equal(statSync(made.key).mode & 0o777, 0o600);
    assert.deepEqual([made.cert, made.key], [join(folder, 'tls/shop.pem'), join(folder, 'tls/shop-key.pem')]);
  });

  it('is refused if the authority or its key does not exist', async () => {
    const folder = temporaryFolder();
    const refused = new RegExp(`^Error: ${folder}/tls holds no development authority with its key; .* start a gateway`);
    await assert.rejects(producerCertificate(folder, 'shop', FIRST), refused);
    await developmentCertificates(folder, FIRST, SYSTEM.clock);
    rmSync(join(folder, 'tls/ca-key.pem'));
    await assert.rejects(producerCertificate(folder, 'shop', FIRST), (error: Error) => {
      assert.match(String(error), refused);
      assert.match(String(error.cause), /ENOENT.*ca-key\.pem/);
      return true;
    });
  });

  it('is refused for a name whose files belong to another certificate', async () => {
    const folder = temporaryFolder();
    await developmentCertificates(folder, FIRST, SYSTEM.clock);
    await producerCertificate(folder, 'shop', FIRST);
    const contents = (): string[] =>
      readdirSync(join(folder, 'tls'))
        .sort()
        .map((file) => `${file} ${readFileSync(join(folder, 'tls', file), 'utf8')}`);
    const before = contents();
    for (const name of ['ca', 'server', 'producer', 'ca-key', 'server-key', 'producer-key', 'shop-key'])
      await assert.rejects(producerCertificate(folder, name, FIRST), {
        message: `the name '${name}' cannot be used: ${name}.pem may belong to another certificate`,
      });
    assert.deepEqual(contents(), before);
    for (const name of ['cat', 'web-server', 'key', 'two-keys']) await producerCertificate(folder, name, FIRST);
  });
});
