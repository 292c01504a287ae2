// Copies certificates and revocation lists for trials (client-trust.ts): byte for byte, except for the public key and
// the signature, which belong to keys of the trial. Equal originals have equal copies.
import { createPrivateKey, createPublicKey, hash, sign, type KeyObject, type X509Certificate } from 'node:crypto';
import { der, extensionOf, inside, structureOf, TAG, type Part } from './der.ts';

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
