// Development certificates in the state folder, for an authority, a server with loopback names, and a producer. The
// script bin/development-certificates creates them with openssl.
//
// A gateway on a loopback address creates the certificates if no TLS files are configured. It reuses existing ones if
// they are valid for another week and have the expected audience. Processes that start at the same time take turns.
import { spawnSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { makeFolder } from '../process/make-folder.ts';
import { readOperatorFileOnce } from '../process/operator-file.ts';
import { alternativeNames } from './producer-identity.ts';

const SCRIPT = fileURLToPath(new URL('../../bin/development-certificates', import.meta.url));

const WEEK_MS = 7 * 24 * 60 * 60 * 1000;
/** Creating the files takes less than a second, unless openssl is installed first. */
const LOCK_MS_MAX = 60_000;

const filesIn = (folder: string) => ({
  clientCa: join(folder, 'ca.pem'),
  cert: join(folder, 'server.pem'),
  key: join(folder, 'server-key.pem'),
  producerCert: join(folder, 'producer.pem'),
  producerKey: join(folder, 'producer-key.pem'),
});

/**
 * Returns the paths of the certificates, after creating them if necessary. `audienceUri` becomes a URI name in the
 * producer's certificate. Rejects if the folder cannot be written.
 */
export async function developmentCertificates(stateDir: string, audienceUri: string, nowMs: number) {
  const folder = join(stateDir, 'tls');
  const files = filesIn(folder);
  if (isUsable(files, audienceUri, nowMs)) return files;
  makeFolder(stateDir);
  const draft = mkdtempSync(join(stateDir, 'tls-'));
  const { DatabaseSync } = await import('node:sqlite');
  // The operating system releases the lock on a SQLite file when the process exits, even after SIGKILL.
  const lock = new DatabaseSync(join(stateDir, 'certificates.lock'), { timeout: LOCK_MS_MAX });
  try {
    lock.exec('BEGIN EXCLUSIVE');
    if (isUsable(files, audienceUri, nowMs)) return files;
    const { error, status, stderr } = spawnSync(SCRIPT, [draft, audienceUri], { encoding: 'utf8' });
    if (error !== undefined) throw error;
    if (status !== 0)
      throw new Error(`development certificates cannot be made: ${stderr.trim().split('\n').at(-1) ?? ''}`);
    rmSync(folder, { recursive: true, force: true });
    renameSync(draft, folder);
    return files;
  } finally {
    lock.close();
    rmSync(draft, { recursive: true, force: true });
  }
}

function isUsable(files: ReturnType<typeof filesIn>, audienceUri: string, nowMs: number): boolean {
  try {
    for (const key of [files.key, files.producerKey]) readOperatorFileOnce(key);
    const [ca, cert, producer] = [files.clientCa, files.cert, files.producerCert].map(
      (path) => new X509Certificate(readOperatorFileOnce(path)),
    ) as [X509Certificate, X509Certificate, X509Certificate];
    const isGood = (one: X509Certificate): boolean =>
      one.validToDate.getTime() > nowMs + WEEK_MS && one.verify(ca.publicKey);
    return [ca, cert, producer].every(isGood) && alternativeNames(producer).URI.includes(audienceUri);
  } catch {
    return false;
  }
}
