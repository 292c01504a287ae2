// Copies certificates and revocation lists for trials (client-trust.ts): byte for byte, except for the public key and
// the signature, which belong to keys made for the trial.
import { generateKeyPairSync, sign, type KeyObject, type X509Certificate } from 'node:crypto';
import { der, derOf, elements, inside, signedParts, TAG, type Element } from './der.ts';

export type Keys = Readonly<Record<'publicKey' | 'privateKey', KeyObject>>;

/** The DER of the algorithm ecdsa-with-SHA256. */
const ALGORITHM = Buffer.from('300a06082a8648ce3d040302', 'hex');
/** The DER of object identifiers (RFC 5280, section 4.2.1). */
const BASIC_CONSTRAINTS = Buffer.from('0603551d13', 'hex');
const SUBJECT_KEY_IDENTIFIER = Buffer.from('0603551d0e', 'hex');
const AUTHORITY_KEY_IDENTIFIER = Buffer.from('0603551d23', 'hex');
/** Places in the fields of a certificate, and in those of a list. */
const [ALGORITHM_AT, SUBJECT_AT, PUBLIC_KEY_AT] = [2, 5, 6] as const;
const LIST_ALGORITHM_AT = 1;
const YEAR_MS = 365 * 24 * 60 * 60 * 1000;

export const newKeys = (): Keys => generateKeyPairSync('ec', { namedCurve: 'P-256' });

export const spki = ({ publicKey }: Pick<Keys, 'publicKey'>): Buffer =>
  publicKey.export({ type: 'spki', format: 'der' });

export function certificateCopy(certificate: X509Certificate, own: Keys, issuer: Keys): string {
  const fields = certificateFields(certificate).with(ALGORITHM_AT, ALGORITHM).with(PUBLIC_KEY_AT, spki(own));
  return signed('CERTIFICATE', fields, issuer);
}

export const listCopy = (pem: string, issuer: Keys): string =>
  signed('X509 CRL', fieldsOf(derOf(pem), TAG.integer).with(LIST_ALGORITHM_AT, ALGORITHM), issuer);

/** Issues a certificate without names, so that no name constraints apply to it. */
export function leafOf(authority: X509Certificate, issuer: Keys, own: Keys, nowMs: number): string {
  const time = (ms: number): Buffer =>
    der(TAG.time, Buffer.from(`${new Date(ms).toISOString().replaceAll(/\D/g, '').slice(0, 14)}Z`));
  const keyId = extensionOf(authority, SUBJECT_KEY_IDENTIFIER)?.content;
  const identifier = keyId && der(TAG.octets, der(TAG.sequence, der(0x80, keyId)));
  const fields = [
    der(0xa0, der(TAG.integer, Buffer.of(2))),
    der(TAG.integer, Buffer.of(0x40), spki(own).subarray(-15)),
    ALGORITHM,
    certificateFields(authority)[SUBJECT_AT] ?? Buffer.alloc(0),
    der(TAG.sequence, time(nowMs - YEAR_MS), time(nowMs + YEAR_MS)),
    der(TAG.sequence),
    spki(own),
    ...(identifier ? [der(0xa3, der(TAG.sequence, der(TAG.sequence, AUTHORITY_KEY_IDENTIFIER, identifier)))] : []),
  ];
  return signed('CERTIFICATE', fields, issuer);
}

export const claimsAuthority = (certificate: X509Certificate): boolean =>
  inside(extensionOf(certificate, BASIC_CONSTRAINTS))[0]?.tag === TAG.boolean;

/**
 * Returns the fields of a certificate or of a list (RFC 5280, sections 4.1 and 5.1). The version is optional in both;
 * the first field is empty if it is missing.
 */
function fieldsOf(whole: Buffer, versionTag: number): Buffer[] {
  const fields = inside(signedParts(whole)[0]);
  return [...(fields[0]?.tag === versionTag ? [] : [Buffer.alloc(0)]), ...fields.map(({ raw }) => raw)];
}

const certificateFields = ({ raw }: X509Certificate): Buffer[] => fieldsOf(raw, 0xa0);

function signed(label: string, fields: readonly Uint8Array[], { privateKey }: Keys): string {
  const body = der(TAG.sequence, ...fields);
  const signature = der(TAG.bits, Buffer.of(0), sign('sha256', body, privateKey));
  const whole = der(TAG.sequence, body, ALGORITHM, signature).toString('base64');
  return `-----BEGIN ${label}-----\n${whole.replaceAll(/.{1,64}/g, '$&\n')}-----END ${label}-----\n`;
}

/** Returns the value of an extension of a certificate. */
function extensionOf(certificate: X509Certificate, id: Buffer): Element | undefined {
  const list = certificateFields(certificate).find((field) => field[0] === 0xa3);
  const extensions = list === undefined ? [] : inside(inside(elements(list)[0])[0]).map(inside);
  const value = extensions.find(([type]) => type?.raw.equals(id) === true)?.at(-1);
  return inside(value)[0];
}
