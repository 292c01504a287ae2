import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { getCACertificates } from 'node:tls';
import { describe, it } from 'node:test';
import { makeFolder } from '../../lib/process/make-folder.ts';
import {
  readOperatorFile,
  readOperatorFileOnce,
  strictJson,
  textOf,
  trustServers,
} from '../../lib/process/operator-file.ts';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { temporaryFolder } from '../support/scope.ts';

describe('JSON in a file that a person writes', () => {
  it('is refused with the place of a name that is repeated at any depth, in any spelling', () => {
    for (const [text, pointer] of [
      ['{"a":1,"a":1}', '/a'],
      [String.raw`{"a":1,"\u0061":2}`, '/a'],
      ['{"x":[0,{"y":{"b":{},"c":"}","b":[]}}]}', '/x/1/y/b'],
      ['[[{}],{"a/b~":1,"c":[1,2],"a/b~":{}}]', '/1/a~1b~0'],
      ['{"__proto__":{},"__proto__":{}}', '/__proto__'],
    ] as const)
      assert.throws(() => strictJson(text), { name: 'SyntaxError', message: `the name at ${pointer} is repeated` });
  });

  it('may have one name in several objects, in another case, and as a value', () => {
    const text = String.raw`{"a":{"a":["a","a",{"a":"\",\"a\":"}]},"A":"a","b":[{"a":1},{"a":2}],"":{}}`;
    assert.deepEqual(strictJson(text), JSON.parse(text));
    assert.equal(strictJson('"a"'), 'a');
    assert.throws(() => strictJson('{"a":'), SyntaxError);
  });
});

describe('a file that an operator names', () => {
  const folder = temporaryFolder();
  const pipe = join(folder, 'pipe');
  execFileSync('mkfifo', [pipe]);

  it('has authorities of the servers, all of which are trusted, or is refused if it has none', () => {
    const path = join(folder, 'key.pem');
    writeFileSync(path, '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n');
    const message = `INGEST_TLS_SERVER_CA="${path}": expected a readable PEM file with authorities (no certificate in PEM format)`;
    assert.throws(() => trustServers(path), { exitCode: 2, message });
    const both = ['one', 'two'].map((name) => new CertificateAuthority(name).certificate.trim());
    writeFileSync(path, both.join('\n'));
    const trusted = (): string[] =>
      getCACertificates('default').map((text) => new X509Certificate(text).fingerprint256);
    const before = trusted();
    trustServers(path);
    const wanted = [...before, ...both.map((text) => new X509Certificate(text).fingerprint256)];
    assert.deepEqual(new Set(trusted()), new Set(wanted));
  });

  it('is refused with the reason if a read of it might never end', async () => {
    const sparse = join(folder, 'sparse');
    writeFileSync(sparse, '');
    truncateSync(sparse, 2 ** 30);
    for (const [path, code] of [
      ['/dev/zero', /^not a regular file$/],
      [sparse, /^1073741824 bytes, more than the limit of 67108864$/],
      [folder, /^EISDIR$/],
      [join(folder, 'none'), /^ENOENT$/],
    ] as const) {
      await assert.rejects(readOperatorFile(path), { code });
      assert.throws(() => readOperatorFileOnce(path), { code });
    }
    await assert.rejects(readOperatorFile(pipe), { code: 'not a regular file' });
    const writer = spawn('sh', ['-c', `yes >'${pipe}'`]);
    assert.throws(() => readOperatorFileOnce(pipe), { code: 'a pipe with more than 1048576 bytes' });
    writer.kill();
  });

  it('may be a pipe if it is read once, also if its writer begins later', () => {
    const writer = spawn('sh', ['-c', `{ sleep 0.1; printf re; sleep 0.1; printf dis; } >'${pipe}'`]);
    assert.equal(readOperatorFileOnce(pipe).toString(), 'redis');
    writer.kill();
  });
});

it('a folder is made with its missing parents, all with its mode', () => {
  const root = temporaryFolder();
  makeFolder(join(root, 'a/b/c'), 0o700);
  assert.deepEqual(
    ['a', 'a/b', 'a/b/c'].map((path) => statSync(join(root, path)).mode & 0o777),
    [0o700, 0o700, 0o700],
  );
});

it('a file that a person writes is read without its byte order mark, and refused if it is not UTF-8', () => {
  assert.equal(textOf(Buffer.from('\uFEFF{}\uFEFF')), '{}\uFEFF');
  for (const bytes of [Buffer.from('\uFEFF{}', 'utf16le'), Buffer.from('ü', 'latin1')])
    assert.throws(() => textOf(bytes), TypeError);
});
