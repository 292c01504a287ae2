// The files that say whom a campaign's gateways trust, which change while events run: the server's certificate and key,
// the authorities, their revocation lists, and the producers file.
//
// Each is written as a slow writer does: a first part, which is a good file of its own where that can be, and some time
// later all of it. That is less than the 250 ms between two looks of a gateway, which acts on what two of them agree on.
import { writeFileSync } from 'node:fs';
import { connect } from 'node:tls';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import type { Producer } from './ledger.ts';
import type { Random } from './random.ts';

const HALF_WRITTEN_MS: readonly [from: number, to: number] = [60, 150];

export class Credentials {
  readonly #pki: Pki;
  /** An authority that no producer is of. */
  readonly #other: CertificateAuthority;
  #rotations = 0;

  private constructor(pki: Pki, other: CertificateAuthority) {
    this.#pki = pki;
    this.#other = other;
  }

  static async create(): Promise<Credentials> {
    const [pki, other] = await Promise.all([Pki.create(), CertificateAuthority.create(SYSTEM, 'other authority')]);
    const credentials = new Credentials(pki, other);
    for (const [name, content] of await credentials.#files()) pki.write(name, content);
    return credentials;
  }

  /**
   * Of the gateway of this number. Every other one has revocation lists, by which it knows a part of the authorities as
   * no whole file.
   */
  environment(at: number): Readonly<Record<string, string>> {
    return {
      ...this.#pki.environment,
      INGEST_STATE_DIR: this.#pki.folder,
      INGEST_PRODUCERS_FILE: this.#pki.path('producers.json'),
      ...(at % 2 === 0 ? { INGEST_TLS_CLIENT_CRL: this.#pki.path('crl.pem') } : {}),
    };
  }

  /** Of the servers. */
  get authority(): string {
    return this.#pki.authority.certificate;
  }

  producer(name: Producer): Promise<ClientCertificate> {
    return this.#pki.producer(name);
  }

  /** Rewrites all of them; resolves when the gateways at these ports have the new certificate. */
  async rotate(ports: readonly number[], random: Random): Promise<void> {
    // A gateway that starts reads each file once: it is to find them whole.
    await this.#served(ports, () => true);
    const server = await this.#pki.authority.issue({
      commonName: 'localhost',
      dnsNames: ['localhost'],
      addresses: ['127.0.0.1', '::1'],
      server: true,
    });
    const files = [
      ...(await this.#files()),
      ['server.pem', server.certificate],
      ['server-key.pem', server.key],
    ] as const;
    for (const [name, content, part = content.slice(0, content.length / 2)] of files) {
      writeFileSync(this.#pki.path(name), part);
      // Nothing else of this process comes in between, so that the part is not there for long.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, random.between(...HALF_WRITTEN_MS));
      writeFileSync(this.#pki.path(name), content);
    }
    await this.#served(ports, (serial) => BigInt(`0x${serial}`) === BigInt(`0x${server.serial}`));
  }

  /** Name and content of those that say whom to trust, and a part that is a good file too. */
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
