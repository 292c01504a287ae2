// Development certificates in the state folder: an authority, a server on loopback names, one producer, and more of
// them.
//
// They are made only when no TLS material is configured and the gateway listens on loopback, kept while they have a
// week to live and carry the expected audience, and made anew otherwise. Several processes may start at once: one of
// them makes the files while it holds a lock, a folder, and the others wait and use what it made.
import { mkdir, mkdtemp, readFile, rename, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { X509Certificate } from 'node:crypto';
import { join } from 'node:path';
import type { Clock, ClockAndRandom } from '../process/clock.ts';

const WEEK_MS = 7 * 24 * 60 * 60 * 1000;
/** Making the files takes a fraction of a second: a lock that is older was left by a process that was killed. */
const LOCK_MS_MAX = 10_000;
const LOCK_PAUSE_MS = 20;
/** Producers' names whose files would be those of the authority, the server or the first producer, or another's key. */
const TAKEN_NAME = /^(?:ca|server|producer)$|-key$/;

/** Paths of PEM files. */
export interface DevelopmentCertificates {
  readonly clientCa: string;
  readonly cert: string;
  readonly key: string;
  readonly producerCert: string;
  readonly producerKey: string;
}

/** `audienceUri` is the URI name that the producer's certificate carries. Rejects when the folder cannot be written. */
export async function developmentCertificates(
  stateDir: string,
  audienceUri: string,
  system: ClockAndRandom,
): Promise<DevelopmentCertificates> {
  const { clock } = system;
  const folder = join(stateDir, 'tls');
  const files: DevelopmentCertificates = {
    clientCa: join(folder, 'ca.pem'),
    cert: join(folder, 'server.pem'),
    key: join(folder, 'server-key.pem'),
    producerCert: join(folder, 'producer.pem'),
    producerKey: join(folder, 'producer-key.pem'),
  };
  if (await usable(files, audienceUri, clock.epochMs())) return files;
  await mkdir(stateDir, { recursive: true });
  await locked(join(stateDir, 'tls.lock'), clock, async () => {
    if (await usable(files, audienceUri, clock.epochMs())) return;
    const made = await mkdtemp(join(stateDir, 'tls-'));
    try {
      await make(made, audienceUri, system);
      await rm(folder, { recursive: true, force: true });
      await rename(made, folder);
    } catch (cause) {
      await rm(made, { recursive: true, force: true });
      throw cause;
    }
  });
  return files;
}

/** Runs `work` while no other process that asks for the same lock does. */
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
 * A certificate for another producer, `urn:ingest:producer:<name>`, by the authority that is there: paths of PEM files.
 * Rejects where no gateway has made one yet, and for a name whose files may hold another certificate or key.
 */
export async function producerCertificate(
  stateDir: string,
  name: string,
  audienceUri: string,
  system: ClockAndRandom,
): Promise<{ readonly cert: string; readonly key: string; readonly ca: string }> {
  if (TAKEN_NAME.test(name))
    throw new Error(`the name '${name}' cannot be used: ${name}.pem may belong to another certificate`);
  const folder = join(stateDir, 'tls');
  const files = { cert: join(folder, `${name}.pem`), key: join(folder, `${name}-key.pem`), ca: join(folder, 'ca.pem') };
  const text = (path: string): Promise<string> => readFile(path, 'utf8');
  const [certificate, key] = await Promise.all([text(files.ca), text(join(folder, 'ca-key.pem'))]).catch(
    (cause: unknown) => {
      throw new Error(
        `${folder} holds no development authority with its key; remove that folder and start a gateway once`,
        { cause },
      );
    },
  );
  const { CertificateAuthority } = await import('./certificate-authority.ts');
  const authority = await CertificateAuthority.load(system, certificate, key);
  const made = await authority.issue({ commonName: name, uris: [`urn:ingest:producer:${name}`, audienceUri] });
  await writeFile(files.cert, made.certificate);
  await writeFile(files.key, made.key, { mode: 0o600 });
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
      (producer.subjectAltName ?? '').split(', ').includes(`URI:${audienceUri}`)
    );
  } catch {
    return false;
  }
}

async function make(folder: string, audienceUri: string, system: ClockAndRandom): Promise<void> {
  // Loaded here: it takes a tenth of a second, and a configured gateway never needs it.
  const { CertificateAuthority } = await import('./certificate-authority.ts');
  const authority = await CertificateAuthority.create(system, 'ingest development authority');
  const server = await authority.issue({
    commonName: 'localhost',
    dnsNames: ['localhost'],
    addresses: ['127.0.0.1', '::1'],
    server: true,
  });
  const producer = await authority.issue({
    commonName: 'development producer',
    uris: ['urn:ingest:producer:development', audienceUri],
  });
  const secret = { mode: 0o600 };
  await writeFile(join(folder, 'ca.pem'), authority.certificate);
  await writeFile(join(folder, 'ca-key.pem'), await authority.key(), secret);
  await writeFile(join(folder, 'server.pem'), server.certificate);
  await writeFile(join(folder, 'server-key.pem'), server.key, secret);
  await writeFile(join(folder, 'producer.pem'), producer.certificate);
  await writeFile(join(folder, 'producer-key.pem'), producer.key, secret);
}
