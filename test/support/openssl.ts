// Certificates and revocation lists made by the openssl command, as operators make them.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from './scope.ts';
import { tool } from './tool.ts';

const OPENSSL = tool('openssl', 'openssl');

const KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-noenc'] as const;

/** A folder with files that openssl makes. Each name stands for `<name>.pem` and `<name>.key`. */
export class OpenSsl {
  readonly folder = temporaryFolder('openssl-');

  run(...args: readonly string[]): string {
    return execFileSync(OPENSSL, args, { cwd: this.folder, encoding: 'utf8', stdio: 'pipe' });
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  write(name: string, text: string): string {
    writeFileSync(this.path(name), text);
    return this.path(name);
  }

  text(name: string): string {
    return readFileSync(this.path(name), 'utf8');
  }

  /** Makes a self-signed certificate, by default of an authority. */
  root(name: string, subject = `/CN=${name}`, ...more: readonly string[]): string {
    const key = more.includes('-newkey') ? ['-noenc'] : KEY;
    this.run('req', '-x509', ...key, '-subj', subject, '-keyout', `${name}.key`, '-out', `${name}.pem`, ...more);
    return this.text(`${name}.pem`);
  }

  /** Makes a certificate that `by` signs, with these lines of extensions. */
  issue(name: string, by: string, extensions: string, days = 30): string {
    this.run('req', '-new', ...KEY, '-subj', `/CN=${name}`, '-keyout', `${name}.key`, '-out', `${name}.csr`);
    this.write(`${name}.ext`, extensions);
    const ca = ['-CA', `${by}.pem`, '-CAkey', `${by}.key`, '-CAcreateserial', '-days', String(days)];
    this.run('x509', '-req', '-in', `${name}.csr`, ...ca, '-extfile', `${name}.ext`, '-out', `${name}.pem`);
    return this.text(`${name}.pem`);
  }

  /** Makes a self-signed certificate for a period of years, with these lines of extensions. */
  dated(name: string, subject: string, [from, to]: readonly [number, number], extensions: string): string {
    const lines = ['[ca]', 'default_ca=d', '[d]', 'database=dated.txt', 'rand_serial=yes', 'default_md=sha256'];
    lines.push('new_certs_dir=.', 'unique_subject=no', 'policy=p', 'x509_extensions=e', '[p]', 'commonName=supplied');
    this.write('dated.cnf', [...lines, '[e]', extensions].join('\n'));
    this.write('dated.txt', '');
    this.run('req', '-new', ...KEY, '-subj', subject, '-keyout', `${name}.key`, '-out', `${name}.csr`);
    const period = ['-startdate', `${from}0101000000Z`, '-enddate', `${to}0101000000Z`];
    const own = ['-selfsign', '-keyfile', `${name}.key`, '-in', `${name}.csr`, '-out', `${name}.pem`];
    this.run('ca', '-batch', '-notext', '-config', 'dated.cnf', ...period, ...own);
    return this.text(`${name}.pem`);
  }

  /** Makes a revocation list of `by`, with these lines of extensions, and revokes the certificates of `names`. */
  list(
    by: string,
    extensions = 'authorityKeyIdentifier=keyid',
    names: readonly string[] = [],
    signing: readonly string[] = [],
  ): string {
    const lines = ['[ca]', 'default_ca=l', '[l]', `database=${by}.txt`, `crlnumber=${by}.number`, 'default_md=sha256'];
    if (extensions !== '') lines.push('crl_extensions=e', '[e]', extensions);
    lines.splice(2, 0, '');
    this.write(`${by}.cnf`, lines.join('\n'));
    this.write(`${by}.txt`, '');
    this.write(`${by}.number`, '01\n');
    const ca = ['ca', '-config', `${by}.cnf`, '-cert', `${by}.pem`, '-keyfile', `${by}.key`, '-crldays', '30'];
    for (const name of names) this.run(...ca, '-revoke', `${name}.pem`);
    this.run(...ca, '-gencrl', '-out', `${by}.crl`, ...signing);
    return this.text(`${by}.crl`);
  }
}
