import { hash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CertificateAuthority, Issued, IssueOptions, ListTimes } from './certificate-authority.ts';
import { temporaryFolder } from './scope.ts';
import { SYSTEM } from './system.ts';

export const AUDIENCE_URI = 'urn:ingest:aud:ingest-gateway';

export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
  readonly serial: string;
}

/** The certificates of the nth Pki of a process. They are kept for a day, because making them needs the library. */
interface Kept {
  readonly madeMs: number;
  readonly certificate: string;
  readonly key: string;
  readonly server: Issued;
  /** By name, and by how often this name was asked for before. */
  readonly producers: Record<string, Issued>;
}

const KEPT_MS = 86_400_000;
const CACHE = join(import.meta.dirname, '../../node_modules/.cache/certificates');
const VERSION = hash('sha1', readFileSync(join(import.meta.dirname, 'certificate-authority.ts'))).slice(0, 8);
let created = 0;

function read(path: string): Kept | undefined {
  try {
    const kept = JSON.parse(readFileSync(path, 'utf8')) as Kept;
    return Date.now() - kept.madeMs < KEPT_MS ? kept : undefined;
  } catch {
    return undefined;
  }
}

/** Several processes may write the same file, so it is replaced as a whole. */
function keep(path: string, kept: Kept): Kept {
  mkdirSync(CACHE, { recursive: true });
  writeFileSync(`${path}-${process.pid}`, JSON.stringify(kept), { mode: 0o600 });
  renameSync(`${path}-${process.pid}`, path);
  return kept;
}

async function make(): Promise<Kept> {
  const { CertificateAuthority } = await import('./certificate-authority.ts');
  const authority = await CertificateAuthority.create(SYSTEM, 'test authority');
  const server = await authority.issue({
    commonName: 'localhost',
    dnsNames: ['localhost'],
    addresses: ['127.0.0.1', '::1'],
    server: true,
  });
  const { certificate } = authority;
  return { madeMs: Date.now(), certificate, key: await authority.key(), server, producers: {} };
}

/** Loads the library when it signs something, because loading takes a tenth of a second of CPU time. */
export class LazyAuthority implements Pick<CertificateAuthority, keyof LazyAuthority> {
  readonly certificate: string;
  readonly #key: string;
  #loaded: Promise<CertificateAuthority> | undefined;

  constructor({ certificate, key }: Pick<Kept, 'certificate' | 'key'>) {
    this.certificate = certificate;
    this.#key = key;
  }

  key(): Promise<string> {
    return Promise.resolve(this.#key);
  }

  async issue(options: IssueOptions): Promise<Issued> {
    return (await this.#load()).issue(options);
  }

  async intermediate(commonName: string): Promise<CertificateAuthority> {
    return (await this.#load()).intermediate(commonName);
  }

  async revocationList(serials: readonly string[], times?: ListTimes): Promise<string> {
    return (await this.#load()).revocationList(serials, times);
  }

  #load(): Promise<CertificateAuthority> {
    return (this.#loaded ??= import('./certificate-authority.ts').then(({ CertificateAuthority }) =>
      CertificateAuthority.load(SYSTEM, this.certificate, this.#key),
    ));
  }
}

export class Pki {
  readonly folder = temporaryFolder('ingest-pki-');
  readonly authority: LazyAuthority;
  readonly server: Issued;
  readonly #path: string;
  readonly #kept: Kept;
  readonly #asked = new Map<string, number>();

  private constructor(path: string, kept: Kept) {
    this.#path = path;
    this.#kept = kept;
    this.authority = new LazyAuthority(kept);
    this.server = kept.server;
  }

  static async create(): Promise<Pki> {
    const path = join(CACHE, `${VERSION}-${(created += 1)}.json`);
    const pki = new Pki(path, read(path) ?? keep(path, await make()));
    pki.write('ca.pem', pki.authority.certificate);
    pki.write('server.pem', pki.server.certificate);
    pki.write('server-key.pem', pki.server.key);
    return pki;
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  write(name: string, content: string): string {
    writeFileSync(this.path(name), content);
    return this.path(name);
  }

  get environment(): Record<string, string> {
    return {
      INGEST_TLS_CERT: this.path('server.pem'),
      INGEST_TLS_KEY: this.path('server-key.pem'),
      INGEST_TLS_CLIENT_CA: this.path('ca.pem'),
    };
  }

  async producer(name: string, options?: Partial<IssueOptions>): Promise<ClientCertificate> {
    const { certificate, key, serial } = await this.#producer(name, options);
    return { cert: certificate, key, serial };
  }

  async #producer(name: string, options?: Partial<IssueOptions>): Promise<Issued> {
    const issue = (): Promise<Issued> =>
      this.authority.issue({ commonName: name, uris: [`urn:test:producer:${name}`, AUDIENCE_URI], ...options });
    if (options !== undefined) return issue();
    const before = this.#asked.get(name) ?? 0;
    this.#asked.set(name, before + 1);
    const kept = this.#kept.producers[`${name} ${before}`];
    if (kept !== undefined) return kept;
    const issued = await issue();
    this.#kept.producers[`${name} ${before}`] = issued;
    keep(this.#path, this.#kept);
    return issued;
  }
}
