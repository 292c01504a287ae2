// Certificates and revocation lists for tests and measurements that use real TLS.
import 'reflect-metadata';
import * as x509 from '@peculiar/x509';
import { webcrypto } from 'node:crypto';
import type { ClockAndRandom, Random } from '../../lib/process/clock.ts';

x509.cryptoProvider.set(webcrypto);

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const DAY_MS = 24 * 60 * 60 * 1000;

/** A certificate and its key in PEM format. The serial number is hexadecimal. */
export interface Issued {
  readonly certificate: string;
  readonly key: string;
  readonly serial: string;
}

export interface IssueOptions {
  readonly commonName: string;
  readonly uris?: readonly string[];
  readonly dnsNames?: readonly string[];
  readonly addresses?: readonly string[];
  readonly server?: boolean;
  readonly client?: boolean;
  readonly authority?: boolean;
  readonly notBefore?: Date;
  readonly notAfter?: Date;
}

export interface ListTimes {
  readonly thisUpdate?: Date;
  readonly nextUpdate?: Date;
}

export class CertificateAuthority {
  readonly certificate: string;
  readonly #certificate: x509.X509Certificate;
  readonly #keys: webcrypto.CryptoKeyPair;
  readonly #system: ClockAndRandom;

  private constructor(system: ClockAndRandom, certificate: x509.X509Certificate, keys: webcrypto.CryptoKeyPair) {
    this.#system = system;
    this.#certificate = certificate;
    this.#keys = keys;
    this.certificate = `${certificate.toString('pem')}\n`;
  }

  static async create(system: ClockAndRandom, commonName: string, days = 3650): Promise<CertificateAuthority> {
    const keys = await generateKeys();
    const nowMs = system.clock.epochMs();
    const certificate = await x509.X509CertificateGenerator.createSelfSigned({
      serialNumber: newSerial(system.random),
      name: `CN=${commonName}`,
      notBefore: new Date(nowMs - DAY_MS),
      notAfter: new Date(nowMs + days * DAY_MS),
      signingAlgorithm: ALGORITHM,
      keys,
      extensions: [...authorityExtensions(), ...(await keyIdentifiers(keys, keys))],
    });
    return new CertificateAuthority(system, certificate, keys);
  }

  static async load(system: ClockAndRandom, certificate: string, key: string): Promise<CertificateAuthority> {
    const loaded = new x509.X509Certificate(certificate);
    const der = Buffer.from(key.replace(/-----[^-]+-----|\s/g, ''), 'base64');
    const privateKey = await webcrypto.subtle.importKey('pkcs8', der, ALGORITHM, true, ['sign']);
    const publicKey = await loaded.publicKey.export(webcrypto);
    return new CertificateAuthority(system, loaded, { privateKey, publicKey });
  }

  key(): Promise<string> {
    return pemOf(this.#keys.privateKey);
  }

  async issue(options: IssueOptions): Promise<Issued> {
    const keys = await generateKeys();
    const certificate = await this.#sign(options, keys);
    return {
      certificate: `${certificate.toString('pem')}\n`,
      key: await pemOf(keys.privateKey),
      serial: certificate.serialNumber,
    };
  }

  async intermediate(commonName: string): Promise<CertificateAuthority> {
    const keys = await generateKeys();
    const certificate = await this.#sign({ commonName, authority: true }, keys);
    return new CertificateAuthority(this.#system, certificate, keys);
  }

  async revocationList(serials: readonly string[], { thisUpdate, nextUpdate }: ListTimes = {}): Promise<string> {
    const nowMs = this.#system.clock.epochMs();
    const list = await x509.X509CrlGenerator.create({
      issuer: this.#certificate.subject,
      thisUpdate: thisUpdate ?? new Date(nowMs - DAY_MS),
      nextUpdate: nextUpdate ?? new Date(nowMs + 30 * DAY_MS),
      signingAlgorithm: ALGORITHM,
      signingKey: this.#keys.privateKey,
      entries: serials.map((serialNumber) => ({ serialNumber, revocationDate: new Date(nowMs) })),
    });
    // The library writes the label "CRL", but OpenSSL reads only "X509 CRL" (RFC 7468, section 6).
    return `${list.toString('pem').replaceAll(' CRL-----', ' X509 CRL-----')}\n`;
  }

  async #sign(options: IssueOptions, keys: webcrypto.CryptoKeyPair): Promise<x509.X509Certificate> {
    const nowMs = this.#system.clock.epochMs();
    const own = options.authority === true ? authorityExtensions() : leafExtensions(options);
    return x509.X509CertificateGenerator.create({
      serialNumber: newSerial(this.#system.random),
      subject: `CN=${options.commonName}`,
      issuer: this.#certificate.subject,
      notBefore: options.notBefore ?? new Date(nowMs - DAY_MS),
      notAfter: options.notAfter ?? new Date(nowMs + 365 * DAY_MS),
      signingAlgorithm: ALGORITHM,
      publicKey: keys.publicKey,
      signingKey: this.#keys.privateKey,
      extensions: [...own, ...(await keyIdentifiers(keys, this.#keys))],
    });
  }
}

function authorityExtensions(): x509.Extension[] {
  return [
    new x509.BasicConstraintsExtension(true, undefined, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
  ];
}

/** Returns the key identifiers (RFC 5280, sections 4.2.1.1 and 4.2.1.2), which Python has required since 3.13. */
const keyIdentifiers = (own: webcrypto.CryptoKeyPair, issuer: webcrypto.CryptoKeyPair): Promise<x509.Extension[]> =>
  Promise.all([
    x509.SubjectKeyIdentifierExtension.create(own.publicKey),
    x509.AuthorityKeyIdentifierExtension.create(issuer.publicKey),
  ]);

function leafExtensions(options: IssueOptions): x509.Extension[] {
  const names: x509.JsonGeneralNames = [
    ...(options.uris ?? []).map((value) => ({ type: 'url' as const, value })),
    ...(options.dnsNames ?? []).map((value) => ({ type: 'dns' as const, value })),
    ...(options.addresses ?? []).map((value) => ({ type: 'ip' as const, value })),
  ];
  const { server = false, client = !server } = options;
  const usages = [
    ...(server ? [x509.ExtendedKeyUsage.serverAuth] : []),
    ...(client ? [x509.ExtendedKeyUsage.clientAuth] : []),
  ];
  return [
    new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
    new x509.ExtendedKeyUsageExtension(usages),
    ...(names.length === 0 ? [] : [new x509.SubjectAlternativeNameExtension(names)]),
  ];
}

async function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
}

async function pemOf(key: webcrypto.CryptoKey): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key));
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN PRIVATE KEY-----\n${lines.join('\n')}\n-----END PRIVATE KEY-----\n`;
}

/** Returns 16 random bytes that form a positive number (RFC 5280, section 4.1.2.2). */
function newSerial(random: Random): string {
  const bytes = random.bytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes.toString('hex');
}

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
  of: Pick<CertificateAuthority, 'certificate' | 'key'>,
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
