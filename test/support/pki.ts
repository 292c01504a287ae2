// Real certificates for tests: an authority, a server on loopback, producers of all kinds, as PEM files.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import 'reflect-metadata';
import * as x509 from '@peculiar/x509';
import { CertificateAuthority, type Issued, type IssueOptions } from '../../lib/identity/certificate-authority.ts';
import { temporaryFolder } from './scope.ts';

export const AUDIENCE_URI = 'urn:ingest:aud:ingest-gateway';

export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
  readonly serial: string;
}

export class Pki {
  readonly folder: string;
  readonly authority: CertificateAuthority;
  readonly server: Issued;

  private constructor(folder: string, authority: CertificateAuthority, server: Issued) {
    this.folder = folder;
    this.authority = authority;
    this.server = server;
  }

  static async create(): Promise<Pki> {
    const authority = await CertificateAuthority.create('test authority');
    const server = await authority.issue({
      commonName: 'localhost',
      dnsNames: ['localhost'],
      addresses: ['127.0.0.1', '::1'],
      server: true,
    });
    const pki = new Pki(temporaryFolder('ingest-pki-'), authority, server);
    pki.write('ca.pem', authority.certificate);
    pki.write('server.pem', server.certificate);
    pki.write('server-key.pem', server.key);
    return pki;
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  write(name: string, content: string): string {
    writeFileSync(this.path(name), content);
    return this.path(name);
  }

  /** The environment of a gateway that uses these files. */
  get environment(): Record<string, string> {
    return {
      INGEST_TLS_CERT: this.path('server.pem'),
      INGEST_TLS_KEY: this.path('server-key.pem'),
      INGEST_TLS_CLIENT_CA: this.path('ca.pem'),
    };
  }

  /** A producer with the audience, named `urn:test:producer:<name>`; `options` override. */
  async producer(name: string, options: Partial<IssueOptions> = {}): Promise<ClientCertificate> {
    const issued = await this.authority.issue({
      commonName: name,
      uris: [`urn:test:producer:${name}`, AUDIENCE_URI],
      ...options,
    });
    return { cert: issued.certificate, key: issued.key, serial: issued.serial };
  }
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };

/** A certificate without a subject, signed by itself, as PEM. */
export async function certificateWithoutSubject(uris: readonly string[] = []): Promise<string> {
  const keys = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const names = uris.map((value) => ({ type: 'url' as const, value }));
  const made = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: '01',
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: names.length === 0 ? [] : [new x509.SubjectAlternativeNameExtension(names)],
  });
  return made.toString('pem');
}

/** Another certificate of an authority, with the same key: under its own name or another, good until `notAfter`. */
export async function anotherCertificate(
  authority: CertificateAuthority,
  {
    name,
    notAfter,
    usages = x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign,
    extensions = [],
    pathLength,
  }: {
    readonly name?: string;
    readonly notAfter?: Date;
    readonly usages?: number;
    readonly extensions?: readonly x509.Extension[];
    readonly pathLength?: number;
  },
): Promise<string> {
  const { publicKey, subject } = new x509.X509Certificate(authority.certificate);
  const pkcs8 = Buffer.from((await authority.key()).replace(/-----[^-]+-----|\s/g, ''), 'base64');
  const made = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: '02',
    name: name ?? subject,
    notBefore: new Date(Date.now() - 86_400_000),
    notAfter: notAfter ?? new Date(Date.now() + 86_400_000),
    keys: {
      privateKey: await crypto.subtle.importKey('pkcs8', pkcs8, ALGORITHM, true, ['sign']),
      publicKey: await publicKey.export(),
    },
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(true, pathLength, true),
      new x509.KeyUsagesExtension(usages, true),
      ...extensions,
    ],
  });
  return `${made.toString('pem')}\n`;
}
