// Reads and writes DER (X.690), for the parts of certificates and revocation lists that node:crypto does not show.
//
// The package @peculiar/asn1-x509 (2.11) would do this too, but it refuses a list of 100,000 entries.

/** `raw` includes the tag and the length. */
export interface Element {
  readonly tag: number;
  readonly content: Buffer;
  readonly raw: Buffer;
}

export const TAG = { boolean: 1, integer: 2, bits: 3, octets: 4, utcTime: 0x17, time: 0x18, sequence: 0x30 } as const;

/** Parses consecutive DER elements. Throws a RangeError if the last one is incomplete. */
export function elements(der: Buffer): Element[] {
  const found: Element[] = [];
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
    found.push({ tag: der.readUInt8(start), content: der.subarray(at, end), raw: der.subarray(start, end) });
    start = end;
  }
  return found;
}

export const inside = (element: Element | undefined): Element[] => elements(element?.content ?? Buffer.alloc(0));

export const sequencesIn = (fields: readonly Element[]): Element[] => fields.filter(({ tag }) => tag === TAG.sequence);

export function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  if (content.length < 0x80) return Buffer.concat([Buffer.of(tag, content.length), content]);
  const digits = content.length.toString(16);
  const length = Buffer.from(digits.padStart(2 * Math.ceil(digits.length / 2), '0'), 'hex');
  return Buffer.concat([Buffer.of(tag, 0x80 + length.length), length, content]);
}
