// Certificates and revocation lists for tests and measurements that use real TLS (RFC 5280).
import { generateKeyPairSync, hash, randomBytes, sign, type KeyObject } from 'node:crypto';
import { der, TAG } from '../../lib/identity/x509.ts';

const DAY_MS = 86_400_000;

/** A certificate and its key in PEM format. The serial number is hexadecimal. */
export interface Issued {
  readonly certificate: string;
  readonly key: string;
  readonly serial: string;
}

export interface IssueOptions {
  /** Without a common name, the subject is empty. */
  readonly commonName?: string | undefined;
  readonly uris?: readonly string[];
  readonly dnsNames?: readonly string[];
  readonly addresses?: readonly (keyof typeof ADDRESSES)[];
  readonly server?: boolean;
  readonly notBefore?: Date;
  readonly notAfter?: Date;
  readonly serial?: string;
}

export const LOCALHOST = {
  ...{ commonName: 'localhost', dnsNames: ['localhost'], server: true },
  addresses: ['127.0.0.1', '::1'],
} as const satisfies IssueOptions;

interface Subject {
  readonly name: Buffer;
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

const sequence = (...parts: readonly Buffer[]): Buffer => der(TAG.sequence, ...parts);
const octets = (...parts: readonly Buffer[]): Buffer => der(TAG.octets, ...parts);
const oid = (hex: string): Buffer => der(0x06, Buffer.from(hex, 'hex'));
/** The shortest encoding with a sign bit of 0. */
function integer(hex: string): Buffer {
  const digits = BigInt(`0x${hex}`).toString(16);
  const sign = digits.length % 2 === 1 ? '0' : /^[89a-f]/.test(digits) ? '00' : '';
  return der(TAG.integer, Buffer.from(sign + digits, 'hex'));
}
const time = (date: Date): Buffer =>
  der(TAG.utcTime, Buffer.from(date.toISOString().replaceAll(/^20|[-:T]|\.\d+/g, '')));
const daysFromNow = (days: number): Date => new Date(Date.now() + days * DAY_MS);

const ECDSA_WITH_SHA256 = sequence(oid('2a8648ce3d040302'));
const YES = der(TAG.boolean, Buffer.of(0xff));
const ADDRESSES = { '127.0.0.1': '7f000001', '::1': '1'.padStart(32, '0') } as const;
/** The usages digitalSignature, keyCertSign and cRLSign, as bits of a byte. */
const [SIGNS, SIGNS_CERTIFICATES, SIGNS_LISTS] = [0x80, 0x04, 0x02];

const extension = (id: string, content: Buffer, isCritical = false): Buffer =>
  sequence(oid(`551d${id}`), ...(isCritical ? [YES] : []), octets(content));

const usageExtension = (bits: number): Buffer =>
  extension('0f', der(TAG.bits, Buffer.of(Math.log2(bits & -bits), bits)), true);

const authorityExtensions = (usages: number): Buffer[] => [
  extension('13', sequence(YES), true),
  usageExtension(usages),
];

function leafExtensions({ uris = [], dnsNames = [], addresses = [], server = false }: IssueOptions): Buffer[] {
  const names = [
    ...uris.map((uri) => der(0x86, Buffer.from(uri))),
    ...dnsNames.map((name) => der(0x82, Buffer.from(name))),
    ...addresses.map((address) => der(0x87, Buffer.from(ADDRESSES[address], 'hex'))),
  ];
  return [
    extension('13', sequence(), true),
    usageExtension(SIGNS),
    extension('25', sequence(oid(`2b0601050507030${server ? 1 : 2}`))),
    ...(names.length === 0 ? [] : [extension('11', sequence(...names))]),
  ];
}

/** Returns the key identifiers (RFC 5280, sections 4.2.1.1 and 4.2.1.2), which Python has required since 3.13. */
function keyExtensions(own: Subject, by: Subject): Buffer[] {
  const identifier = ({ publicKey }: Subject): Buffer =>
    hash('sha1', publicKey.export({ type: 'spki', format: 'der' }).subarray(-65), 'buffer');
  return [extension('0e', octets(identifier(own))), extension('23', sequence(der(0x80, identifier(by))))];
}

const subject = (commonName?: string): Subject => ({
  name: sequence(
    ...(commonName === undefined ? [] : [der(0x31, sequence(oid('550403'), der(0x0c, Buffer.from(commonName))))]),
  ),
  ...generateKeyPairSync('ec', { namedCurve: 'P-256' }),
});

function signed(label: string, content: Buffer, { privateKey }: Subject): string {
  const signature = der(TAG.bits, Buffer.of(0), sign('sha256', content, privateKey));
  const lines =
    sequence(content, ECDSA_WITH_SHA256, signature)
      .toString('base64')
      .match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`;
}

/** Returns 16 random bytes that form a positive number (RFC 5280, section 4.1.2.2). */
const newSerial = (): string => `4${randomBytes(16).toString('hex').slice(1)}`;

function certificateOf(
  own: Subject,
  by: Subject,
  extensions: readonly Buffer[],
  { notBefore = daysFromNow(-1), notAfter = daysFromNow(365), serial = newSerial() }: IssueOptions = {},
): string {
  const content = sequence(
    ...[der(0xa0, integer('02')), integer(serial), ECDSA_WITH_SHA256, by.name],
    ...[sequence(time(notBefore), time(notAfter)), own.name, own.publicKey.export({ type: 'spki', format: 'der' })],
    der(0xa3, sequence(...extensions, ...keyExtensions(own, by))),
  );
  return signed('CERTIFICATE', content, by);
}

const keyOf = ({ privateKey }: Subject): string => String(privateKey.export({ type: 'pkcs8', format: 'pem' }));

export class CertificateAuthority {
  readonly certificate: string;
  readonly #own: Subject;

  constructor(commonName: string, days = 3650, by?: CertificateAuthority) {
    this.#own = subject(commonName);
    const usages = SIGNS_CERTIFICATES | SIGNS_LISTS;
    const notAfter = daysFromNow(days);
    this.certificate = certificateOf(this.#own, (by ?? this).#own, authorityExtensions(usages), { notAfter });
  }

  get key(): string {
    return keyOf(this.#own);
  }

  async issue(options: IssueOptions): Promise<Issued> {
    const own = subject(options.commonName);
    const serial = options.serial ?? newSerial();
    const certificate = certificateOf(own, this.#own, leafExtensions(options), { ...options, serial });
    return { certificate, key: keyOf(own), serial };
  }

  /** Issues another certificate for the key of the authority. */
  again(
    { commonName, notAfter = daysFromNow(1), signsLists = true } = {} as {
      readonly commonName?: string;
      readonly notAfter?: Date;
      readonly signsLists?: boolean;
    },
  ): string {
    const own = { ...this.#own, ...(commonName !== undefined && { name: subject(commonName).name }) };
    return certificateOf(own, own, authorityExtensions(SIGNS_CERTIFICATES | (signsLists ? SIGNS_LISTS : 0)), {
      notAfter,
    });
  }

  async intermediate(commonName: string): Promise<CertificateAuthority> {
    return new CertificateAuthority(commonName, 365, this);
  }

  async revocationList(
    serials: readonly string[],
    {
      thisUpdate = daysFromNow(-1),
      nextUpdate = daysFromNow(30),
    }: { readonly thisUpdate?: Date; readonly nextUpdate?: Date } = {},
  ): Promise<string> {
    const now = time(new Date());
    const entries = serials.map((serial) => sequence(integer(serial), now));
    const times = [time(thisUpdate), time(nextUpdate)];
    const content = sequence(
      ...[integer('01'), ECDSA_WITH_SHA256, this.#own.name, ...times],
      ...(entries.length === 0 ? [] : [sequence(...entries)]),
    );
    return signed('X509 CRL', content, this.#own);
  }
}
