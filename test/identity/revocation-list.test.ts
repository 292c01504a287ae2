import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { readRevocationList } from '../../lib/identity/revocation-list.ts';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { temporaryFolder } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

const OPENSSL = execFileSync(new URL('../../bin/ensure-command', import.meta.url).pathname, ['openssl', 'openssl'], {
  encoding: 'utf8',
}).trim();

const SERIAL = '00D3A1';

function authorityBy(key: readonly string[], list: readonly string[] = []) {
  const folder = temporaryFolder();
  const run = (...args: readonly string[]): Buffer => execFileSync(OPENSSL, args, { cwd: folder, stdio: 'pipe' });
  const settings = ['[ca]', 'default_ca=list', '[list]', 'database=index.txt', 'crlnumber=number'];
  writeFileSync(join(folder, 'ca.cnf'), [...settings, 'default_md=sha384', 'default_crl_days=30'].join('\n'));
  writeFileSync(join(folder, 'index.txt'), `R\t301231235959Z\t261101120000Z\t${SERIAL}\tunknown\t/CN=gone\n`);
  writeFileSync(join(folder, 'number'), '01\n');
  const usage = ['-addext', 'keyUsage=critical,keyCertSign,cRLSign'];
  run('req', '-x509', ...key, '-noenc', '-subj', '/O=Shop/CN=root', '-keyout', 'k.pem', '-out', 'ca.pem', ...usage);
  const by = ['-config', 'ca.cnf', '-cert', 'ca.pem', '-keyfile', 'k.pem'];
  run('ca', ...by, '-gencrl', '-out', 'crl.pem', ...list);
  const text = (name: string): string => readFileSync(join(folder, name), 'utf8');
  return { authority: new X509Certificate(text('ca.pem')), list: readRevocationList(text('crl.pem')) };
}

describe('a revocation list', () => {
  const PSS = ['-sigopt', 'rsa_padding_mode:pss'];
  for (const [kind, key, list] of [
    ['RSA', ['-newkey', 'rsa:2048'], []],
    ['RSA with PSS', ['-newkey', 'rsa:2048'], PSS],
    ['P-256', ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256'], []],
    ['P-384', ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-384'], []],
    ['Ed25519', ['-newkey', 'ed25519'], []],
  ] as const)
    it(`signed with a ${kind} key is parsed, and belongs to its authority only`, async () => {
      const { authority, list: found } = authorityBy(key, list);
      assert.deepEqual([...found.serials], ['D3A1']);
      assert.equal(found.issuer, 'O=Shop, CN=root');
      assert.ok(found.thisUpdateMs <= Date.now() && Date.now() - found.thisUpdateMs < 600_000);
      assert.equal((found.nextUpdateMs ?? 0) - found.thisUpdateMs, 30 * 86_400_000);
      assert.ok(found.isBy(authority));
      assert.ok(!found.isBy(authorityBy(key, list).authority), 'another key of the same name');
      assert.ok(!found.isBy(new X509Certificate((await CertificateAuthority.create(SYSTEM, 'root')).certificate)));
    });

  it('has serial numbers without leading zero bytes, as Node writes them', async () => {
    const root = await CertificateAuthority.create(SYSTEM, 'root');
    const list = readRevocationList(await root.revocationList(['0a', '8000', '00ff']));
    assert.deepEqual([...list.serials], ['0A', '8000', 'FF']);
  });

  it('may be empty', async () => {
    const root = await CertificateAuthority.create(SYSTEM, 'root');
    assert.equal(readRevocationList(await root.revocationList([])).serials.size, 0);
  });

  it('is refused if it is incomplete or something else', async () => {
    const root = await CertificateAuthority.create(SYSTEM, 'root');
    const der = Buffer.from((await root.revocationList(['01'])).replaceAll(/-----[^-]+-----|\s/g, ''), 'base64');
    for (let length = 0; length < der.length; length += 7)
      assert.throws(() => readRevocationList(der.subarray(0, length).toString('base64')), `${length} bytes`);
    assert.throws(() => readRevocationList(root.certificate));
  });
});
