// Reads certificate revocation lists (RFC 5280, section 5), which node:crypto cannot do.
//
// The trial shows whether OpenSSL can use a list. It does not show the original signature, because it signs a copy, and
// OpenSSL verifies that only when a client connects. The signature is therefore verified here.
import { constants, verify, type X509Certificate } from 'node:crypto';
import type { Revocations } from './client-trust.ts';
import { certificateFields, derOf, extensionsIn, inside, signedParts, TAG, type Element } from './der.ts';

export interface RevocationList extends Revocations {
  readonly pem: string;
}

const AUTHORITY_KEY_IDENTIFIER = '551d23';
/** The extensions that make a list partial or indirect (RFC 5280, sections 5.2.4, 5.2.5 and 5.3.3). */
const PARTIAL = new Map([
  ['551d1b', 'delta CRL indicator'],
  ['551d1c', 'issuing distribution point'],
  ['551d1d', 'certificate issuer'],
]);

/** Reads a list that OpenSSL has parsed. Throws an Error if no authority signed it, or if OpenSSL cannot use it. */
export function readRevocationList(pem: string, authorities: readonly X509Certificate[]): RevocationList {
  const [body, , signature] = signedParts(derOf(pem));
  const fields = inside(body);
  // The version is optional, and so is the time of the next update.
  const [, issuer, , ...rest] = fields[0]?.tag === TAG.integer ? fields.slice(1) : fields;
  const hasNext = rest[0]?.tag === TAG.utcTime || rest[0]?.tag === TAG.generalizedTime;
  const entries = inside(rest.find(({ tag }) => tag === TAG.sequence)).map(inside);
  // Several names may have the same key, so the name that the list gives is tried first.
  const isNamed = ({ raw }: X509Certificate): boolean =>
    issuer !== undefined && certificateFields(raw).subject?.raw.equals(issuer.raw) === true;
  const authority = [...authorities.filter(isNamed), ...authorities].find((one) => isSigned(body, signature, one));
  if (authority === undefined) throw new Error('a list in it is signed by no certificate in INGEST_TLS_CLIENT_CA');
  const unusable =
    unusableIn(inside(fields.find(({ tag }) => tag === 0xa0))[0], AUTHORITY_KEY_IDENTIFIER) ??
    entries.map(([, , extensions]) => unusableIn(extensions)).find((name) => name !== undefined);
  if (unusable !== undefined)
    throw new Error(`the list of ${nameOf(authority)} cannot be used because of its extension: ${unusable}`);
  return {
    pem,
    authority,
    serials: new Set(entries.map(([serial]) => serialOf(serial))),
    nextUpdateMs: hasNext ? timeOf(rest[0] as Element) : undefined,
  };
}

export const nameOf = ({ subject }: X509Certificate): string => JSON.stringify(subject.replaceAll('\n', ', '));

/** Tries every algorithm that a key may have signed with. `null` leaves the choice to the key. */
function isSigned(body: Element | undefined, signature: Element | undefined, { publicKey }: X509Certificate): boolean {
  if (body === undefined || signature === undefined) return false;
  const options = { key: publicKey };
  const isPss = { key: publicKey, padding: constants.RSA_PKCS1_PSS_PADDING };
  return [null, 'sha256', 'sha384', 'sha512'].some((hash) =>
    (publicKey.asymmetricKeyType === 'rsa' ? [options, isPss] : [options]).some((key) => {
      try {
        return verify(hash, body.raw, key, signature.content.subarray(1));
      } catch {
        return false; // The algorithm does not fit the key.
      }
    }),
  );
}

/** OpenSSL handles only the `known` critical extension. It would refuse every certificate that the list covers. */
function unusableIn(extensions: Element | undefined, known?: string): string | undefined {
  const found = extensionsIn(extensions).find(({ id, critical }) => PARTIAL.has(id) || (critical && id !== known));
  if (found === undefined) return undefined;
  const name = PARTIAL.get(found.id);
  return name === undefined ? dotted(found.id) : `${name} (${dotted(found.id)})`;
}

/** Converts an object identifier from hexadecimal DER to dotted numbers. */
function dotted(id: string): string {
  const numbers = [0];
  for (const byte of Buffer.from(id, 'hex')) {
    numbers.push((numbers.pop() ?? 0) * 128 + (byte & 0x7f));
    if (byte < 0x80) numbers.push(0);
  }
  const [first = 0, ...rest] = numbers.slice(0, -1);
  const arc = Math.min(2, Math.floor(first / 40));
  return [arc, first - 40 * arc, ...rest].join('.');
}

/** Parses `YYMMDDhhmmssZ`, with a year from 1950 to 2049, or the same with a four-digit year. */
function timeOf({ tag, content }: Element): number {
  const text = content.toString('latin1');
  const full = tag === TAG.utcTime ? `${Number(text.slice(0, 2)) < 50 ? '20' : '19'}${text}` : text;
  const ms = Date.parse(full.replace(/^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'));
  if (Number.isNaN(ms)) throw new Error('a list in it has a time that cannot be read');
  return ms;
}

/** Returns uppercase hexadecimal without leading zero bytes, the format that Node uses for serial numbers. */
const serialOf = (serial: Element | undefined): string =>
  (serial?.content.toString('hex') ?? '').toUpperCase().replace(/^(00)+(?=..)/, '');
