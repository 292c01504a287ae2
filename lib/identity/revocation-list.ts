// Reads certificate revocation lists (RFC 5280, section 5), which node:crypto cannot do.
//
// The trial shows whether OpenSSL can use a list. It does not show the original signature, because it signs a copy, and
// OpenSSL verifies that only when a client connects. The signature is therefore verified here.
import { constants, verify, type X509Certificate } from 'node:crypto';
import { elements, inside, sequencesIn, TAG, type Element } from './x509.ts';

export interface RevocationList {
  readonly der: Buffer;
  readonly authority: X509Certificate;
  /** Uppercase hexadecimal, the format that Node uses. */
  readonly serials: ReadonlySet<string>;
  /** Infinity if the list never expires. */
  readonly nextUpdateMs: number;
}

/** The only critical extension that OpenSSL can handle. */
const AUTHORITY_KEY_IDENTIFIER = '2.5.29.35';
/** The extensions that make a list partial or indirect (RFC 5280, sections 5.2.4, 5.2.5 and 5.3.3). */
const PARTIAL = new Map([
  ['2.5.29.27', 'delta CRL indicator (2.5.29.27)'],
  ['2.5.29.28', 'issuing distribution point (2.5.29.28)'],
  ['2.5.29.29', 'certificate issuer (2.5.29.29)'],
]);

/** Reads a list that OpenSSL has parsed. Throws an Error if no authority signed it, or if OpenSSL cannot use it. */
export function readRevocationList(pem: string, authorities: readonly X509Certificate[]): RevocationList {
  const der = Buffer.from(pem.replaceAll(/-----[^-]+-----|\s/g, ''), 'base64');
  const [body, , signature] = inside(elements(der)[0]) as [Element, Element, Element];
  const authority = authorities.find((one) => isSigned(body, signature, one));
  if (authority === undefined) throw new Error('a list in it is signed by no certificate in INGEST_TLS_CLIENT_CA');
  const fields = inside(body);
  // The time of the next update, the entries and the extensions are optional.
  const [, nextUpdate] = fields.filter(({ tag }) => tag === TAG.utcTime || tag === TAG.time);
  const [, , entries] = sequencesIn(fields);
  const revoked = inside(entries).map(inside);
  const extensions = [inside(fields.find(({ tag }) => tag === 0xa0))[0], ...revoked.map(([, , ofEntry]) => ofEntry)];
  const unusable = extensions.map(unusableIn).find((name) => name !== undefined);
  if (unusable !== undefined)
    throw new Error(`the list of ${nameOf(authority)} cannot be used because of its extension: ${unusable}`);
  return {
    der,
    authority,
    serials: new Set(revoked.map(([serial]) => serialOf(serial))),
    nextUpdateMs: nextUpdate === undefined ? Number.POSITIVE_INFINITY : timeOf(nextUpdate),
  };
}

/** Quotes a name in a certificate, which is undefined if it is empty. */
export const quoted = (name: string | undefined): string => JSON.stringify((name ?? '').replaceAll('\n', ', '));

/** An authority without a subject is found by its serial number. */
export const nameOf = ({ subject, serialNumber }: X509Certificate): string =>
  `${quoted(subject)}${(subject as string | undefined) === undefined ? ` (serial number ${serialNumber})` : ''}`;

/** Tries every algorithm that a key may have signed with. `null` leaves the choice to the key. */
const isSigned = (body: Element, signature: Element, { publicKey: key }: X509Certificate): boolean =>
  [null, 'sha256', 'sha384', 'sha512'].some((hash) =>
    [constants.RSA_PKCS1_PADDING, constants.RSA_PKCS1_PSS_PADDING].some((padding) => {
      try {
        return verify(hash, body.raw, { key, padding }, signature.content.subarray(1));
      } catch {
        return false; // The algorithm does not fit the key.
      }
    }),
  );

/** Returns the name of an extension that makes OpenSSL refuse every certificate that the list covers. */
function unusableIn(extensions: Element | undefined): string | undefined {
  for (const [type, ...rest] of inside(extensions).map(inside)) {
    const id = dotted(type?.content ?? Buffer.alloc(0));
    const isCritical = rest.some(({ tag, content }) => tag === TAG.boolean && content[0] !== 0);
    if (PARTIAL.has(id) || (isCritical && id !== AUTHORITY_KEY_IDENTIFIER)) return PARTIAL.get(id) ?? id;
  }
  return undefined;
}

function dotted(id: Buffer): string {
  const numbers = id.toString('latin1').match(/[\x80-\xff]*[^\x80-\xff]/g) ?? [];
  const [first = 0, ...rest] = numbers.map((bytes) =>
    Buffer.from(bytes, 'latin1').reduce((number, byte) => number * 128 + (byte & 0x7f), 0),
  );
  const arc = Math.min(2, Math.floor(first / 40));
  return [arc, first - 40 * arc, ...rest].join('.');
}

/** Parses `YYMMDDhhmmssZ`, with a year from 1950 to 2049, or the same with a four-digit year. */
function timeOf({ tag, content }: Element): number {
  const text = content.toString('latin1');
  const full = tag === TAG.utcTime ? `${text < '5' ? '20' : '19'}${text}` : text;
  const ms = Date.parse(full.replace(/^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'));
  if (Number.isNaN(ms)) throw new Error('a list in it has a time that cannot be read');
  return ms;
}

const serialOf = (serial: Element | undefined): string =>
  (serial?.content.toString('hex') ?? '').toUpperCase().replace(/^(00)+(?=..)/, '');
