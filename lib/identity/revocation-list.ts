// Parses certificate revocation lists (RFC 5280, section 5), which node:crypto cannot do.
//
// OpenSSL verifies a list only when a client connects, and a bad list makes it refuse every client. The signature is
// therefore verified when the file is loaded, so that a bad file is refused and the last good one stays in use.
import { constants, verify, type X509Certificate } from 'node:crypto';
import { certificateFields, derOf, dotted, elements, extensionsIn, inside, TAG, type Element } from './der.ts';

export interface RevocationList {
  readonly issuer: string;
  readonly thisUpdateMs: number;
  readonly nextUpdateMs: number | undefined;
  /** Uppercase hexadecimal without leading zero bytes, the format that Node uses for serial numbers. */
  readonly serials: ReadonlySet<string>;
  /** The extension of the list or of an entry that OpenSSL cannot use, such as `delta CRL indicator (2.5.29.27)`. */
  readonly unusable: string | undefined;
  /** True if this authority signed the list and is allowed to sign lists. */
  isBy(authority: X509Certificate): boolean;
}

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
const AUTHORITY_KEY_IDENTIFIER = '551d23';
/** The extensions that make a list partial or indirect (RFC 5280, sections 5.2.4, 5.2.5 and 5.3.3). */
const PARTIAL = new Set(['551d1b', '551d1c', '551d1d']);
const EXTENSIONS = new Map([
  ['551d14', 'CRL number'],
  ['551d15', 'reason code'],
  ['551d18', 'invalidity date'],
  ['551d1b', 'delta CRL indicator'],
  ['551d1c', 'issuing distribution point'],
  ['551d1d', 'certificate issuer'],
  ['551d2e', 'freshest CRL'],
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
  const [list] = elements(derOf(pem));
  const [body, algorithm, signature] = inside(list);
  if (list?.tag !== TAG.sequence || body?.tag !== TAG.sequence || signature?.tag !== TAG.bits)
    throw new Error('expected a revocation list');
  const fields = inside(body);
  // The version is optional.
  const at = fields[0]?.tag === TAG.integer ? 1 : 0;
  const [issuer, thisUpdate, next] = fields.slice(at + 1);
  const hasNext = next?.tag === TAG.utcTime || next?.tag === TAG.generalizedTime;
  const revoked = fields.slice(at + (hasNext ? 4 : 3)).find(({ tag }) => tag === TAG.sequence);
  const entries = inside(revoked).map(inside);
  const name = nameOf(issuer);
  return {
    issuer: name,
    thisUpdateMs: timeOf(thisUpdate),
    nextUpdateMs: hasNext ? timeOf(next) : undefined,
    serials: new Set(entries.map(([serial]) => serialOf(serial))),
    unusable:
      unusableIn(inside(fields.find(({ tag }) => tag === 0xa0))[0], AUTHORITY_KEY_IDENTIFIER) ??
      entries.map(([, , extensions]) => unusableIn(extensions)).find((name) => name !== undefined),
    isBy: (authority) => {
      const { subject, signsLists } = partsOf(authority);
      return (
        signsLists &&
        subject.toLowerCase() === name.toLowerCase() &&
        fields[at]?.raw.equals(algorithm?.raw ?? Buffer.alloc(0)) === true &&
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

/** OpenSSL handles only the `known` critical extension. It would refuse every certificate that the list covers. */
function unusableIn(extensions: Element | undefined, known?: string): string | undefined {
  const found = extensionsIn(extensions).find(({ id, critical }) => PARTIAL.has(id) || (critical && id !== known));
  if (found === undefined) return undefined;
  const number = dotted(found.id);
  const name = EXTENSIONS.get(found.id);
  return name === undefined ? number : `${name} (${number})`;
}

function partsOf(authority: X509Certificate): { readonly subject: string; readonly signsLists: boolean } {
  const { subject, extensions } = certificateFields(authority.raw);
  const usage = extensions.find(({ id }) => id === KEY_USAGE)?.value;
  const bits = usage === undefined ? undefined : elements(usage)[0]?.content[1];
  return { subject: nameOf(subject), signsLists: bits === undefined || (bits & CRL_SIGN) !== 0 };
}

/** Returns a name such as `CN=root, O=shop`. Several blanks are equivalent to one (RFC 5280, section 7.1). */
function nameOf(name: Element | undefined): string {
  const attributes = inside(name).flatMap((set) => inside(set).map(inside));
  return attributes
    .map(([id, value]) => {
      const key = id?.content.toString('hex') ?? '';
      const bytes = value?.content ?? Buffer.alloc(0);
      const text =
        value?.tag === TAG.bmpString ? Buffer.from(bytes).swap16().toString('utf16le') : bytes.toString('utf8');
      return `${ATTRIBUTES.get(key) ?? key}=${text.trim().replaceAll(/\s+/g, ' ')}`;
    })
    .join(', ');
}

/** Parses `YYMMDDhhmmssZ`, with a year from 1950 to 2049, or the same with a four-digit year. */
function timeOf(time: Element | undefined): number {
  const text = time?.content.toString('latin1') ?? '';
  const full = time?.tag === TAG.utcTime ? `${Number(text.slice(0, 2)) < 50 ? '20' : '19'}${text}` : text;
  const [, year, month, day, hour, minute, second] = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/.exec(full) ?? [];
  const ms = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  if (Number.isNaN(ms)) throw new Error('expected a time');
  return ms;
}

function serialOf(serial: Element | undefined): string {
  if (serial?.tag !== TAG.integer) throw new Error('expected a serial number');
  return serial.content
    .toString('hex')
    .toUpperCase()
    .replace(/^(00)+(?=..)/, '');
}
