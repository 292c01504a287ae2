// The gateways' certificates, authorities, revocation lists and producers file, which change during the campaign.
// Each file is first written in part, with valid content if possible, and then completely. The pause is shorter than
// the 250 ms between two reads of a gateway, which uses a file only after two equal reads.
import { writeFileSync } from 'node:fs';
import { connect } from 'node:tls';
import { CertificateAuthority, LOCALHOST } from '../support/certificate-authority.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { eventually } from '../support/scope.ts';
import type { Producer } from './ledger.ts';
import type { Random } from './random.ts';

const HALF_WRITTEN_MS: readonly [from: number, to: number] = [60, 150];

export class Credentials {
  readonly #pki: Pki;
  /** This authority has not signed any producer's certificate. */
  readonly #other: CertificateAuthority;
  #rotations = 0;

  private constructor(pki: Pki, other: CertificateAuthority) {
    this.#pki = pki;
    this.#other = other;
  }

  static async create(): Promise<Credentials> {
    const pki = await Pki.create();
    const credentials = new Credentials(pki, new CertificateAuthority('other authority'));
    for (const [name, content] of await credentials.#files()) pki.write(name, content);
    return credentials;
  }

  /** Only every second gateway uses revocation lists, because such a gateway refuses half a file of authorities. */
  environment(at: number): Readonly<Record<string, string>> {
    return {
      ...this.#pki.environment,
      INGEST_STATE_DIR: this.#pki.folder,
      INGEST_PRODUCERS_FILE: this.#pki.path('producers.json'),
      ...(at % 2 === 0 ? { INGEST_TLS_CLIENT_CRL: this.#pki.path('crl.pem') } : {}),
    };
  }

  get authority(): string {
    return this.#pki.authority.certificate;
  }

  producer(name: Producer): Promise<ClientCertificate> {
    return this.#pki.producer(name);
  }

  async rotate(ports: readonly number[], random: Random): Promise<void> {
    // A gateway reads each file only once during startup, so all gateways must be running.
    await this.#served(ports, () => true);
    const server = await this.#pki.authority.issue(LOCALHOST);
    const files = [
      ...(await this.#files()),
      ['server.pem', server.certificate],
      ['server-key.pem', server.key],
    ] as const;
    for (const [name, content, part = content.slice(0, content.length / 2)] of files) {
      writeFileSync(this.#pki.path(name), part);
      // Blocking the process ensures that the half-written file exists only briefly.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, random.between(...HALF_WRITTEN_MS));
      writeFileSync(this.#pki.path(name), content);
    }
    await this.#served(ports, (serial) => BigInt(`0x${serial}`) === BigInt(`0x${server.serial}`));
  }

  async #files(): Promise<readonly (readonly [name: string, content: string, part?: string])[]> {
    this.#rotations += 1;
    const revoked = this.#rotations.toString(16).padStart(8, '0');
    const [own, other] = [this.#pki.authority, this.#other];
    const producers = { [`urn:test:producer:nobody-${this.#rotations}`]: { rate: this.#rotations } };
    return [
      ['ca.pem', other.certificate + own.certificate, other.certificate],
      ['crl.pem', (await own.revocationList([revoked])) + (await other.revocationList([revoked]))],
      ['producers.json', JSON.stringify({ producers })],
    ];
  }

  async #served(ports: readonly number[], wanted: (serial: string) => boolean): Promise<void> {
    for (const port of ports)
      await eventually('the gateway has its files', async () => wanted(await this.#serialAt(port)));
  }

  #serialAt(port: number): Promise<string> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port, ca: this.authority }, () => {
        resolve(socket.getPeerX509Certificate()?.serialNumber ?? '');
        socket.destroy();
      });
      socket.on('error', reject);
    });
  }
}
