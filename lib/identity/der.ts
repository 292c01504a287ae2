// Reads and writes DER (X.690), for the parts of certificates and revocation lists that node:crypto does not show.

/** `raw` includes the tag and the length. */
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

export const inside = (element: Element | undefined): Element[] =>
  element === undefined ? [] : elements(element.content);

/** Returns the body, the algorithm and the signature of a certificate or of a revocation list. */
export const signedParts = (der: Buffer): Element[] => inside(elements(der)[0]);

export const derOf = (pem: string): Buffer => Buffer.from(pem.replaceAll(/-----[^-]+-----|\s/g, ''), 'base64');

export const pemOf = (label: string, raw: Buffer): string =>
  `-----BEGIN ${label}-----\n${raw.toString('base64').replaceAll(/.{1,64}/g, '$&\n')}-----END ${label}-----\n`;

export function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  if (content.length < 0x80) return Buffer.concat([Buffer.from([tag, content.length]), content]);
  const digits = content.length.toString(16);
  const length = Buffer.from(digits.length % 2 === 0 ? digits : `0${digits}`, 'hex');
  return Buffer.concat([Buffer.from([tag, 0x80 + length.length]), length, content]);
}

/** The fields of a certificate (RFC 5280, section 4.1). The serial number is at the index `from`. */
export function certificateFields(raw: Buffer) {
  const fields = inside(signedParts(raw)[0]);
  // The version is optional.
  const from = fields[0]?.tag === TAG.integer ? 0 : 1;
  const extensions = extensionsIn(inside(fields.find(({ tag }) => tag === 0xa3))[0]);
  return { fields, from, subject: fields[from + 4], extensions };
}

/** An extension of a certificate, of a list or of an entry of a list. `id` is its object identifier in hexadecimal. */
export interface Extension {
  readonly id: string;
  readonly critical: boolean;
  readonly value: Buffer;
}

export const extensionsIn = (sequence: Element | undefined): Extension[] =>
  inside(sequence).map((extension) => {
    const [id, ...rest] = inside(extension);
    return {
      id: id?.content.toString('hex') ?? '',
      critical: rest.some(({ tag, content }) => tag === TAG.boolean && content[0] !== 0),
      value: rest.at(-1)?.content ?? Buffer.alloc(0),
    };
  });
