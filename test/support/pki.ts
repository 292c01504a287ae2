import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import 'reflect-metadata';
import * as x509 from '@peculiar/x509';
import { CertificateAuthority, type Issued, type IssueOptions } from './certificate-authority.ts';
import { temporaryFolder } from './scope.ts';
import { SYSTEM } from './system.ts';

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
    const authority = await CertificateAuthority.create(SYSTEM, 'test authority');
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

  get environment(): Record<string, string> {
    return {
      INGEST_TLS_CERT: this.path('server.pem'),
      INGEST_TLS_KEY: this.path('server-key.pem'),
      INGEST_TLS_CLIENT_CA: this.path('ca.pem'),
    };
  }

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

/** Issues another certificate for the key of an authority, with a different name, usage or expiry. */
export async function anotherCertificate(
  of: CertificateAuthority,
  { name, notAfter, usages }: { readonly name?: string; readonly notAfter?: Date; readonly usages?: number },
): Promise<string> {
  const { publicKey, subject } = new x509.X509Certificate(of.certificate);
  const pkcs8 = Buffer.from((await of.key()).replace(/-----[^-]+-----|\s/g, ''), 'base64');
  const made = await x509.X509CertificateGenerator.create({
    serialNumber: `02${Buffer.from(crypto.getRandomValues(new Uint8Array(8))).toString('hex')}`,
    subject: name ?? subject,
    issuer: name ?? subject,
    notBefore: new Date(Date.now() - 86_400_000),
    notAfter: notAfter ?? new Date(Date.now() + 86_400_000),
    publicKey: await publicKey.export(),
    signingKey: await crypto.subtle.importKey('pkcs8', pkcs8, ALGORITHM, true, ['sign']),
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(usages ?? x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
    ],
  });
  return `${made.toString('pem')}\n`;
}
