// Reads and writes DER (X.690), for the parts of certificates and revocation lists that node:crypto does not show.

/** A DER element. `raw` includes the tag and the length. */
export interface Element {
  readonly tag: number;
  readonly content: Buffer;
  readonly raw: Buffer;
}

export const TAG = Object.freeze({
  boolean: 0x01,
  integer: 0x02,
  bits: 0x03,
  octets: 0x04,
  sequence: 0x30,
  utcTime: 0x17,
  generalizedTime: 0x18,
  bmpString: 0x1e,
});

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

export const derOf = (pem: string): Buffer => Buffer.from(pem.replaceAll(/-----[^-]+-----|\s/g, ''), 'base64');

export const pemOf = (label: string, raw: Buffer): string =>
  `-----BEGIN ${label}-----\n${raw.toString('base64').replaceAll(/.{1,64}/g, '$&\n')}-----END ${label}-----\n`;

export const inside = (element: Element | undefined): Element[] =>
  element === undefined ? [] : elements(element.content);

export function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  if (content.length < 0x80) return Buffer.concat([Buffer.from([tag, content.length]), content]);
  const digits = content.length.toString(16);
  const length = Buffer.from(digits.length % 2 === 0 ? digits : `0${digits}`, 'hex');
  return Buffer.concat([Buffer.from([tag, 0x80 + length.length]), length, content]);
}

export interface Extension {
  /** The object identifier in hexadecimal. */
  readonly id: string;
  readonly critical: boolean;
  readonly value: Buffer;
}

/** Parses the extensions of a certificate, of a list or of an entry of a list (RFC 5280, section 4.1). */
export const extensionsIn = (sequence: Element | undefined): Extension[] =>
  inside(sequence).map((extension) => {
    const [id, ...rest] = inside(extension);
    return {
      id: id?.content.toString('hex') ?? '',
      critical: rest.some(({ tag, content }) => tag === TAG.boolean && content[0] !== 0),
      value: rest.find(({ tag }) => tag === TAG.octets)?.content ?? Buffer.alloc(0),
    };
  });

/** The fields of a certificate (RFC 5280, section 4.1) from its serial number on, and its extensions. */
export function certificateFields(raw: Buffer) {
  const fields = inside(inside(elements(raw)[0])[0]);
  // The version is optional.
  const from = fields[0]?.tag === TAG.integer ? 0 : 1;
  const [, , issuer, , subject] = fields.slice(from);
  return { fields, from, issuer, subject, extensions: extensionsIn(inside(fields.find(({ tag }) => tag === 0xa3))[0]) };
}

/** Converts an object identifier from hexadecimal DER to dotted numbers. */
export function dotted(id: string): string {
  const numbers: number[] = [];
  let number = 0;
  for (const byte of Buffer.from(id, 'hex')) {
    number = number * 128 + (byte & 0x7f);
    if (byte >= 0x80) continue;
    if (numbers.length > 0) numbers.push(number);
    else numbers.push(Math.min(2, Math.floor(number / 40)), number - 40 * Math.min(2, Math.floor(number / 40)));
    number = 0;
  }
  return numbers.join('.');
}
