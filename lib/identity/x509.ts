// Reads the parts of certificates and revocation lists that node:crypto does not show, and copies both for trials
// (client-trust.ts): byte for byte, except for the public key and the signature, which belong to keys of the trial.
// Equal originals have equal copies. All of it is DER (X.690).
//
// The package @peculiar/asn1-x509 (2.11) would do this too, but it refuses a list of 100,000 entries.
import { createPrivateKey, createPublicKey, hash, sign, type KeyObject, type X509Certificate } from 'node:crypto';

/** `raw` includes the tag and the length. */
export interface Element {
  readonly tag: number;
  readonly content: Buffer;
  readonly raw: Buffer;
}

const TIMES = { utcTime: 0x17, time: 0x18 } as const;
const TEXTS = { utf8String: 0x0c, bmpString: 0x1e } as const;
export const TAG = { boolean: 1, integer: 2, bits: 3, octets: 4, sequence: 0x30, ...TIMES, ...TEXTS } as const;

/** Parses consecutive DER elements. Throws a RangeError if the last one is incomplete. */
export function elements(der: Buffer): Element[] {
  const all: Element[] = [];
  for (let start = 0; start < der.length;) {
    let at = start + 2;
    let length = der.readUInt8(start + 1);
    if (length > 0x80) {
      const bytes = length - 0x80;
      length = der.readUIntBE(at, bytes);
      at += bytes;
    }
    const end = at + length;
    if (end > der.length) throw new RangeError('incomplete DER');
    all.push({ tag: der.readUInt8(start), content: der.subarray(at, end), raw: der.subarray(start, end) });
    start = end;
  }
  return all;
}

export const inside = (element: Element | undefined): Element[] => elements(element?.content ?? Buffer.alloc(0));

export const sequencesIn = (fields: readonly Element[]): Element[] => fields.filter(({ tag }) => tag === TAG.sequence);

/** The fields of a certificate or of a list (RFC 5280, sections 4.1 and 5.1). A list has no subject and public key. */
function structureOf(original: Buffer) {
  const fields = inside(inside(elements(original)[0])[0]);
  const [algorithm, , dates, subject, publicKey] = sequencesIn(fields);
  return { fields, algorithm, dates, subject, publicKey };
}

/** Returns the value of the extension of a certificate that has the DER `id`. */
function extensionOf(certificate: Buffer, id: Buffer): Element | undefined {
  const list = structureOf(certificate).fields.find(({ tag }) => tag === 0xa3);
  const extensions = inside(inside(list)[0]).map(inside);
  return inside(extensions.find(([type]) => type?.raw.equals(id) === true)?.at(-1))[0];
}

/**
 * Returns the first common name in the subject of a certificate.
 *
 * Fact: `toLegacyObject` and `getPeerCertificate` of node 26.10 crash the process if the key is on a curve that has no
 * NIST name, such as brainpoolP256r1.
 */
export function commonName(certificate: Buffer): string | undefined {
  const attributes = inside(structureOf(certificate).subject).flatMap(inside).map(inside);
  const [, value] = attributes.find(([type]) => type?.content.equals(COMMON_NAME) === true) ?? [];
  if (value?.tag === TAG.bmpString) return Buffer.from(value.content).swap16().toString('utf16le');
  return value?.content.toString(value.tag === TAG.utf8String ? 'utf8' : 'latin1');
}
const COMMON_NAME = Buffer.of(0x55, 4, 3);

const NOTHING = Buffer.of();

/** Content of an element: bytes, or an element with its tag. */
type Part = Uint8Array | readonly [tag: number, first: Part, second?: Part];

export function der(tag: number, ...parts: readonly Part[]): Buffer {
  const bytesOf = (part: Part): Uint8Array => {
    if (part instanceof Uint8Array) return part;
    const [inner, first, second = NOTHING] = part;
    return der(inner, first, second);
  };
  const content = Buffer.concat(parts.map(bytesOf));
  if (content.length < 0x80) return Buffer.concat([Buffer.of(tag, content.length), content]);
  const digits = content.length.toString(16);
  const length = Buffer.from(digits.padStart(2 * Math.ceil(digits.length / 2), '0'), 'hex');
  return Buffer.concat([Buffer.of(tag, 0x80 + length.length), length, content]);
}

/** The DER of the algorithm Ed25519, and of a private key without its last 32 bytes (RFC 8410, section 7). */
const ALGORITHM = Buffer.from('300506032b6570', 'hex');
const PRIVATE_KEY = Buffer.from('302e020100300506032b657004220420', 'hex');
/** The DER of object identifiers (RFC 5280, section 4.2.1). */
const BASIC_CONSTRAINTS = Buffer.from('0603551d13', 'hex');
const SUBJECT_KEY_IDENTIFIER = Buffer.from('0603551d0e', 'hex');
const AUTHORITY_KEY_IDENTIFIER = Buffer.from('0603551d23', 'hex');

const NO_NAME = der(TAG.sequence);
const A_NAME = Buffer.from('300c310a300806035504030c0161', 'hex');

const spki = (key: KeyObject): Buffer => key.export({ type: 'spki', format: 'der' });

/** Returns the private key that replaces the key of a certificate. It is not secret: trials do not leave the memory. */
export function trialKey({ publicKey }: Pick<X509Certificate, 'publicKey'>): KeyObject {
  const key = Buffer.concat([PRIVATE_KEY, hash('sha256', spki(publicKey), 'buffer')]);
  return createPrivateKey({ key, format: 'der', type: 'pkcs8' });
}

export const certificateCopy = (certificate: X509Certificate, issuerKey: KeyObject): string =>
  copyOf('CERTIFICATE', certificate.raw, issuerKey, spki(createPublicKey(trialKey(certificate))));

export const listCopy = (list: Buffer, issuerKey: KeyObject): string => copyOf('X509 CRL', list, issuerKey);

function copyOf(label: string, original: Buffer, issuerKey: KeyObject, own?: Buffer): string {
  const { fields, algorithm, publicKey } = structureOf(original);
  const copies = fields.map((one) => (one === algorithm ? ALGORITHM : (one === publicKey && own) || one.raw));
  return signed(label, copies, issuerKey);
}

/**
 * Issues a certificate for `key`, with the authority's dates, and without names, which constraints may forbid. An
 * authority without a name needs one in its certificates, or they would look self-signed.
 */
export function leafOf(authority: X509Certificate, key: KeyObject): string {
  const { dates, subject } = structureOf(authority.raw);
  const issuer = subject?.raw ?? NO_NAME;
  const own = spki(createPublicKey(key));
  const keyId = extensionOf(authority.raw, SUBJECT_KEY_IDENTIFIER)?.content;
  const identifier = [TAG.octets, [TAG.sequence, [0x80, keyId ?? Buffer.of()]]] as const;
  const fields: readonly Part[] = [
    [0xa0, [TAG.integer, Buffer.of(2)]],
    [TAG.integer, Buffer.of(0x40), own.subarray(-15)],
    ...[ALGORITHM, issuer, dates?.raw ?? NO_NAME, issuer.equals(NO_NAME) ? A_NAME : NO_NAME, own],
    ...(keyId ? [[0xa3, [TAG.sequence, [TAG.sequence, AUTHORITY_KEY_IDENTIFIER, identifier]]] as const] : []),
  ];
  return signed('CERTIFICATE', fields, trialKey(authority));
}

export const claimsAuthority = ({ raw }: X509Certificate): boolean =>
  inside(extensionOf(raw, BASIC_CONSTRAINTS))[0]?.tag === TAG.boolean;

function signed(label: string, fields: readonly Part[], key: KeyObject): string {
  const body = der(TAG.sequence, ...fields);
  const whole = der(TAG.sequence, body, ALGORITHM, [TAG.bits, Buffer.of(0), sign(null, body, key)]);
  return `-----BEGIN ${label}-----\n${whole.toString('base64')}\n-----END ${label}-----\n`;
}
