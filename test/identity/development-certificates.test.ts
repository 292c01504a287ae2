import assert from 'node:assert/strict';
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { developmentCertificates } from '../../lib/identity/development-certificates.ts';
import { audienceUri } from '../../lib/identity/producer-identity.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';

const FIRST = audienceUri('first');
const DAY_MS = 86_400_000;
const OPENSSL = execFileSync(new URL('../../bin/ensure-command', import.meta.url).pathname, ['openssl', 'openssl'], {
  encoding: 'utf8',
}).trim();

const names = (path: string): string => new X509Certificate(readFileSync(path)).subjectAltName ?? '';

const made = (folder: string, audience = FIRST) => developmentCertificates(folder, audience, Date.now());

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
    const files = await made(folder);
    for (const file of ['clientCa', 'cert', 'key', 'producerCert', 'producerKey'] as const) {
      const before = readFileSync(files.clientCa);
      rmSync(files[file]);
      await made(folder);
      assert.notDeepEqual(readFileSync(files.clientCa), before, file);
    }
  });

  it('are made again if one expires within a week or is signed by another authority', async () => {
    const folder = temporaryFolder();
    const authority = new CertificateAuthority('development');
    const issue = async (days: number): Promise<string> => {
      const notAfter = new Date(Date.now() + days * DAY_MS);
      return (await authority.issue({ commonName: 'x', uris: ['urn:x', FIRST], notAfter })).certificate;
    };
    for (const file of ['cert', 'producerCert'] as const) {
      const files = await made(folder);
      writeFileSync(files[file], await issue(8));
      const before = readFileSync(files.clientCa);
      await made(folder);
      assert.notDeepEqual(readFileSync(files.clientCa), before, `${file} of another authority`);
      writeFileSync(files.clientCa, authority.certificate);
      for (const one of [files.cert, files.producerCert]) writeFileSync(one, await issue(8));
      for (const days of [8, 6]) {
        const certificate = await issue(days);
        writeFileSync(files[file], certificate);
        await made(folder);
        assert.equal(readFileSync(files[file], 'utf8') === certificate, days > 7, file);
      }
    }
  });

  it('are made once for processes that start together, which wait for the one that makes them', async () => {
    const folder = temporaryFolder();
    const held = new DatabaseSync(join(folder, 'certificates.lock'));
    held.exec('BEGIN EXCLUSIVE');
    const module = new URL('../../lib/identity/development-certificates.ts', import.meta.url).href;
    const script = `import('${module}').then((made) => made.developmentCertificates('${folder}', '${FIRST}', Date.now()))`;
    const run = promisify(execFile);
    const all = [1, 2, 3].map(() => run(process.execPath, ['-e', script]));
    const folders = (): string[] => readdirSync(folder).filter((name) => name.startsWith('tls'));
    await eventually('all have begun', () => folders().length === all.length);
    assert.ok(!folders().includes('tls'));
    held.close();
    await Promise.all(all);
    assert.deepEqual(folders(), ['tls']);
    const { clientCa, producerCert } = await made(folder);
    const [ca, producer] = [clientCa, producerCert].map((path) => new X509Certificate(readFileSync(path)));
    assert.ok(ca !== undefined && producer?.verify(ca.publicKey) === true);
  });
});

it('a failure to make development certificates leaves none, and its message is one sentence', async () => {
  const folder = temporaryFolder();
  await assert.rejects(made(folder, 'urn:x\n[unfinished'), /^Error: development certificates cannot be made: .*$/);
  assert.doesNotMatch(readdirSync(folder).join(), /tls/);
  await made(folder);
});

describe('a certificate for another producer', () => {
  const SCRIPT = new URL('../../bin/development-certificates', import.meta.url).pathname;
  const producer = (folder: string, name: string) =>
    spawnSync(SCRIPT, [join(folder, 'tls'), FIRST, name], { encoding: 'utf8' });

  it('is issued by the development authority, with its name, the audience, and a key that only the owner can read', async () => {
    const folder = temporaryFolder();
    const { clientCa } = await made(folder);
    const { stdout } = producer(folder, 'shop');
    const [, cert = '', key = '', ca] = /--cert (.+) --key (.+) --ca (.+)/.exec(stdout) ?? [];
    assert.equal(ca, clientCa);
    const certificate = new X509Certificate(readFileSync(cert));
    assert.equal(certificate.subjectAltName, `URI:urn:ingest:producer:shop, URI:${FIRST}`);
    assert.ok(certificate.verify(new X509Certificate(readFileSync(clientCa)).publicKey));
    assert.ok(certificate.checkPrivateKey(createPrivateKey(readFileSync(key))));
    assert.equal(statSync(key).mode & 0o777, 0o600);
  });

  it('is refused without the authority and its key, for a path, and for a name whose files are of another', async () => {
    const folder = temporaryFolder();
    assert.equal(producer(folder, 'shop').status, 2);
    await made(folder);
    const contents = (): string[] =>
      readdirSync(join(folder, 'tls')).map((file) => readFileSync(join(folder, 'tls', file), 'utf8'));
    const before = contents();
    for (const name of ['ca', 'server', 'producer', 'ca-key', 'producer-key', 'shop-key', '', '../x', '-x', 'a b'])
      assert.equal(producer(folder, name).status, 2, name);
    assert.deepEqual(contents(), before);
    for (const name of ['cat', 'two-keys']) assert.equal(producer(folder, name).status, 0, name);
    rmSync(join(folder, 'tls/ca-key.pem'));
    assert.equal(producer(folder, 'shop').status, 2);
  });
});
