import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CertificateAuthority, LOCALHOST, type Issued, type IssueOptions } from './certificate-authority.ts';
import { temporaryFolder } from './scope.ts';

export const AUDIENCE_URI = 'urn:ingest:aud:ingest-gateway';

export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
  readonly serial: string;
}

export class Pki {
  readonly folder = temporaryFolder('ingest-pki-');
  readonly authority: CertificateAuthority;
  readonly server: Issued;

  private constructor(authority: CertificateAuthority, server: Issued) {
    this.authority = authority;
    this.server = server;
    this.write('ca.pem', authority.certificate);
    this.write('server.pem', server.certificate);
    this.write('server-key.pem', server.key);
  }

  static async create(): Promise<Pki> {
    const authority = new CertificateAuthority('test authority');
    return new Pki(authority, await authority.issue(LOCALHOST));
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

  async producer(name: string, options?: IssueOptions): Promise<ClientCertificate> {
    const uris = [`urn:test:producer:${name}`, AUDIENCE_URI];
    const { certificate, key, serial } = await this.authority.issue({ commonName: name, uris, ...options });
    return { cert: certificate, key, serial };
  }
}
