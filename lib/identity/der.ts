// Reads and writes DER (X.690), for the parts of certificates and revocation lists that node:crypto does not show.
//
// The package @peculiar/asn1-x509 (2.11) would do this too, but it refuses a list of 100,000 entries.

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
export function structureOf(original: Buffer) {
  const fields = inside(inside(elements(original)[0])[0]);
  const [algorithm, , dates, subject, publicKey] = sequencesIn(fields);
  return { fields, algorithm, dates, subject, publicKey };
}

/** Returns the value of the extension of a certificate that has the DER `id`. */
export function extensionOf(certificate: Buffer, id: Buffer): Element | undefined {
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
export type Part = Uint8Array | readonly [tag: number, first: Part, second?: Part];

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
