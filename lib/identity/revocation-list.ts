// Parses certificate revocation lists (RFC 5280, section 5), which node:crypto cannot do.
//
// OpenSSL verifies a list only when a client connects, and a bad list makes it refuse every client. The signature is
// therefore verified when the file is loaded, so that a bad file is refused and the last good one stays in use.
import { constants, verify, type X509Certificate } from 'node:crypto';

export interface RevocationList {
  readonly issuer: string;
  readonly thisUpdateMs: number;
  readonly nextUpdateMs: number | undefined;
  /** Uppercase hexadecimal without leading zero bytes, the format that Node uses for serial numbers. */
  readonly serials: ReadonlySet<string>;
  /** True if this authority signed the list and is allowed to sign lists. */
  isBy(authority: X509Certificate): boolean;
}

/** A DER element (X.690). `raw` includes the tag and the length. */
interface Element {
  readonly tag: number;
  readonly content: Buffer;
  readonly raw: Buffer;
}

const [INTEGER, BIT_STRING, OCTETS, SEQUENCE, UTC_TIME, GENERALIZED_TIME] = [0x02, 0x03, 0x04, 0x30, 0x17, 0x18];
const BMP_STRING = 0x1e;
/** The object identifier id-ce-keyUsage, and the bit `cRLSign` of that extension. */
const KEY_USAGE = '551d0f';
const CRL_SIGN = 0x02;
const RSA_PSS = '2a864886f70d01010a';
/** The hash for the object identifier of a signature or hash algorithm, or `null` if the key determines it. */
const HASHES = new Map<string, string | null>([
  ['2a864886f70d01010b', 'sha256'],
  ['2a864886f70d01010c', 'sha384'],
  ['2a864886f70d01010d', 'sha512'],
  ['2a8648ce3d040302', 'sha256'],
  ['2a8648ce3d040303', 'sha384'],
  ['2a8648ce3d040304', 'sha512'],
  ['2b6570', null],
  ['2b6571', null],
  ['608648016503040201', 'sha256'],
  ['608648016503040202', 'sha384'],
  ['608648016503040203', 'sha512'],
]);
const ATTRIBUTES = new Map([
  ['550403', 'CN'],
  ['550406', 'C'],
  ['550407', 'L'],
  ['550408', 'ST'],
  ['55040a', 'O'],
  ['55040b', 'OU'],
]);

/** Throws if the PEM block is not a revocation list. */
export function readRevocationList(pem: string): RevocationList {
  const der = Buffer.from(pem.replaceAll(/-----[^-]+-----|\s/g, ''), 'base64');
  const [list] = elements(der);
  const [body, algorithm, signature] = inside(list);
  if (list?.tag !== SEQUENCE || body?.tag !== SEQUENCE || signature?.tag !== BIT_STRING)
    throw new Error('expected a revocation list');
  const fields = inside(body);
  // The version is optional.
  const at = fields[0]?.tag === INTEGER ? 1 : 0;
  const [issuer, thisUpdate, next] = fields.slice(at + 1);
  const hasNext = next?.tag === UTC_TIME || next?.tag === GENERALIZED_TIME;
  const revoked = fields.slice(at + (hasNext ? 4 : 3)).find(({ tag }) => tag === SEQUENCE);
  const name = nameOf(issuer);
  return {
    issuer: name,
    thisUpdateMs: timeOf(thisUpdate),
    nextUpdateMs: hasNext ? timeOf(next) : undefined,
    serials: new Set(inside(revoked).map((entry) => serialOf(inside(entry)[0]))),
    isBy: (authority) => {
      const { subject, signsLists } = partsOf(authority);
      return (
        signsLists &&
        subject.toLowerCase() === name.toLowerCase() &&
        isSigned(body.raw, inside(algorithm), signature.content.subarray(1), authority)
      );
    },
  };
}

function isSigned(body: Buffer, algorithm: readonly Element[], signature: Buffer, authority: X509Certificate): boolean {
  const id = algorithm[0]?.content.toString('hex') ?? '';
  const isPss = id === RSA_PSS;
  const pssHash = inside(inside(inside(algorithm[1])[0])[0])[0]?.content.toString('hex') ?? '';
  const hash = HASHES.get(isPss ? pssHash : id);
  if (hash === undefined) return false;
  const padding = isPss ? { padding: constants.RSA_PKCS1_PSS_PADDING } : {};
  try {
    return verify(hash, body, { key: authority.publicKey, ...padding }, signature);
  } catch {
    return false; // The key does not match the algorithm.
  }
}

function partsOf(authority: X509Certificate): { readonly subject: string; readonly signsLists: boolean } {
  const fields = inside(inside(elements(authority.raw)[0])[0]);
  // The version is optional. If it is missing, the first field is the serial number.
  const subject = fields[fields[0]?.tag === INTEGER ? 4 : 5];
  const extensions = inside(inside(fields.find(({ tag }) => tag === 0xa3))[0]).map(inside);
  const usage = extensions.find(([id]) => id?.content.toString('hex') === KEY_USAGE)?.find(({ tag }) => tag === OCTETS);
  const bits = usage === undefined ? undefined : elements(usage.content)[0]?.content[1];
  return { subject: nameOf(subject), signsLists: bits === undefined || (bits & CRL_SIGN) !== 0 };
}

/** Returns a name such as `CN=root, O=shop`. Several blanks are equivalent to one (RFC 5280, section 7.1). */
function nameOf(name: Element | undefined): string {
  const attributes = inside(name).flatMap((set) => inside(set).map(inside));
  return attributes
    .map(([id, value]) => {
      const key = id?.content.toString('hex') ?? '';
      const bytes = value?.content ?? Buffer.alloc(0);
      const text = value?.tag === BMP_STRING ? Buffer.from(bytes).swap16().toString('utf16le') : bytes.toString('utf8');
      return `${ATTRIBUTES.get(key) ?? key}=${text.trim().replaceAll(/\s+/g, ' ')}`;
    })
    .join(', ');
}

/** Parses `YYMMDDhhmmssZ`, with a year from 1950 to 2049, or the same with a four-digit year. */
function timeOf(time: Element | undefined): number {
  const text = time?.content.toString('latin1') ?? '';
  const full = time?.tag === UTC_TIME ? `${Number(text.slice(0, 2)) < 50 ? '20' : '19'}${text}` : text;
  const [, year, month, day, hour, minute, second] = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/.exec(full) ?? [];
  const ms = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  if (Number.isNaN(ms)) throw new Error('expected a time');
  return ms;
}

function serialOf(serial: Element | undefined): string {
  if (serial?.tag !== INTEGER) throw new Error('expected a serial number');
  return serial.content
    .toString('hex')
    .toUpperCase()
    .replace(/^(00)+(?=..)/, '');
}

const inside = (element: Element | undefined): Element[] => (element === undefined ? [] : elements(element.content));

/** Parses consecutive DER elements. Throws a RangeError if the last one is incomplete. */
function elements(der: Buffer): Element[] {
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
