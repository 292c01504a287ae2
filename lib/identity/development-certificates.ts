// Development certificates in the state folder, for an authority, a server with loopback names, and producers. The
// script bin/development-certificates creates them with openssl.
//
// A gateway on a loopback address creates the certificates if no TLS files are configured. It reuses existing ones if
// they are valid for another week and have the expected audience. If several processes start at the same time, the
// one that creates the lock folder creates the files, and the others wait.
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rename, rm, rmdir, stat } from 'node:fs/promises';
import { X509Certificate } from 'node:crypto';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { alternativeNames } from './producer-identity.ts';
import type { Clock } from '../process/clock.ts';

const SCRIPT = fileURLToPath(new URL('../../bin/development-certificates', import.meta.url));

const WEEK_MS = 7 * 24 * 60 * 60 * 1000;
/** Creating the files takes less than a second, so an older lock belongs to a process that was killed. */
const LOCK_MS_MAX = 10_000;
const LOCK_PAUSE_MS = 20;
/** Producer names whose files would overwrite another certificate or key. */
const TAKEN_NAME = /^(?:ca|server|producer)$|-key$/;

type DevelopmentCertificates = ReturnType<typeof filesIn>;

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
export async function developmentCertificates(
  stateDir: string,
  audienceUri: string,
  clock: Clock,
): Promise<DevelopmentCertificates> {
  const folder = join(stateDir, 'tls');
  const files = filesIn(folder);
  if (await usable(files, audienceUri, clock.epochMs())) return files;
  await mkdir(stateDir, { recursive: true });
  await locked(join(stateDir, 'tls.lock'), clock, async () => {
    if (await usable(files, audienceUri, clock.epochMs())) return;
    const made = await mkdtemp(join(stateDir, 'tls-'));
    try {
      await make(made, audienceUri);
      await rm(folder, { recursive: true, force: true });
      await rename(made, folder);
    } catch (cause) {
      await rm(made, { recursive: true, force: true });
      throw cause;
    }
  });
  return files;
}

async function locked(lock: string, clock: Clock, work: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      await mkdir(lock);
      break;
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause;
    }
    const since = await stat(lock).catch(() => undefined);
    if (since !== undefined && clock.epochMs() - since.mtimeMs > LOCK_MS_MAX) await rmdir(lock).catch(() => undefined);
    await clock.sleep(LOCK_PAUSE_MS);
  }
  try {
    await work();
  } finally {
    await rmdir(lock);
  }
}

/**
 * Issues a certificate for another producer, `urn:ingest:producer:<name>`. Returns the paths of its PEM files.
 * Rejects if no gateway has created the authority yet, or if the files of this name belong to another certificate.
 */
export async function producerCertificate(
  stateDir: string,
  name: string,
  audienceUri: string,
): Promise<{ readonly cert: string; readonly key: string; readonly ca: string }> {
  if (TAKEN_NAME.test(name))
    throw new Error(`the name '${name}' cannot be used: ${name}.pem may belong to another certificate`);
  const folder = join(stateDir, 'tls');
  const files = { cert: join(folder, `${name}.pem`), key: join(folder, `${name}-key.pem`), ca: join(folder, 'ca.pem') };
  await Promise.all([readFile(files.ca), readFile(join(folder, 'ca-key.pem'))]).catch((cause: unknown) => {
    throw new Error(
      `${folder} holds no development authority with its key; remove that folder and start a gateway once`,
      { cause },
    );
  });
  await make(folder, audienceUri, name);
  return files;
}

async function usable(files: DevelopmentCertificates, audienceUri: string, nowMs: number): Promise<boolean> {
  try {
    const certificate = async (path: string): Promise<X509Certificate> => new X509Certificate(await readFile(path));
    const [ca, cert, producer] = await Promise.all([
      certificate(files.clientCa),
      certificate(files.cert),
      certificate(files.producerCert),
    ]);
    await Promise.all([readFile(files.key), readFile(files.producerKey)]);
    const inAWeek = nowMs + WEEK_MS;
    return (
      [ca, cert, producer].every((one) => Date.parse(one.validTo) > inAWeek && one.verify(ca.publicKey)) &&
      alternativeNames(producer.subjectAltName ?? '').uris.includes(audienceUri)
    );
  } catch {
    return false;
  }
}

/** Runs the script. Rejects with the last line of its standard error. */
function make(folder: string, audienceUri: string, ...producer: string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    execFile(SCRIPT, [folder, audienceUri, ...producer], (cause, _, stderr) => {
      if (cause === null) return resolve();
      const why = stderr.trim().split('\n').at(-1) ?? '';
      reject(new Error(`development certificates cannot be made: ${why === '' ? cause.message : why}`, { cause }));
    });
  });
}
