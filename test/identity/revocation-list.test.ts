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
  return { authority: new X509Certificate(text('ca.pem')), pem: text('crl.pem') };
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
    it(`signed with a ${kind} key is read, and belongs to its authority only`, () => {
      const { authority, pem } = authorityBy(key, list);
      const namesake = authorityBy(key, list).authority;
      const found = readRevocationList(pem, [namesake, authority]);
      assert.equal(found.authority, authority);
      assert.deepEqual([...found.serials], ['D3A1']);
      assert.ok(Math.abs((found.nextUpdateMs ?? 0) - Date.now() - 30 * 86_400_000) < 600_000);
      assert.throws(() => readRevocationList(pem, [namesake]), /signed by no certificate/);
    });

  it('has serial numbers without leading zero bytes, as Node writes them, or none', async () => {
    const root = await CertificateAuthority.create(SYSTEM, 'root');
    const serialsOf = async (serials: readonly string[]): Promise<string[]> => [
      ...readRevocationList(await root.revocationList(serials), [new X509Certificate(root.certificate)]).serials,
    ];
    assert.deepEqual(await serialsOf(['0a', '8000', '00ff']), ['0A', '8000', 'FF']);
    assert.deepEqual(await serialsOf([]), []);
  });
});
