// Tries whether the gateway, with these authorities and lists, accepts certificates that the authorities sign.
//
// Only OpenSSL knows how it finds the issuer and the list of a certificate, and only a handshake shows its verdict. No
// authority's private key is here. Each certificate and list is therefore copied byte for byte except for the public
// key and the signature, which belong to a key made for the trial. Certificates signed with these keys then connect in
// memory. The certificate of the server is the real one.
import { generateKeyPairSync, sign, type KeyObject, type X509Certificate } from 'node:crypto';
import { duplexPair } from 'node:stream';
import {
  connect,
  createServer,
  type ConnectionOptions,
  type SecureContextOptions,
  type Server,
  type TLSSocket,
} from 'node:tls';
import { errno } from '../process/env.ts';
import type { RevocationList } from './revocation-list.ts';
import { der, derOf, elements, inside, signedParts, TAG, type Element } from './der.ts';

/** OpenSSL's name for the reason why it refuses the server certificate, or what the authority signed. */
export interface TrialFault {
  /** `undefined` for the server certificate. */
  readonly authority: X509Certificate | undefined;
  readonly code: string;
}

type Keys = Readonly<Record<'publicKey' | 'privateKey', KeyObject>>;

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

const newKeys = (): Keys => generateKeyPairSync('ec', { namedCurve: 'P-256' });
const spki = ({ publicKey }: Pick<Keys, 'publicKey'>): Buffer => publicKey.export({ type: 'spki', format: 'der' });

/** Returns the faults that OpenSSL finds: one in the server certificate, or those of authorities. */
export async function trialFaults(
  { cert, key }: SecureContextOptions,
  authorities: readonly X509Certificate[],
  lists: readonly RevocationList[],
  nowMs: number,
): Promise<TrialFault[]> {
  const { ofServer } = await verdicts(createServer({ cert, key }), { ca: cert, allowPartialTrustChain: true });
  if (ofServer !== undefined && ofServer !== 'CERT_HAS_EXPIRED') return [{ authority: undefined, code: ofServer }];
  const keys = new Map<string, Keys>();
  const keysOf = (authority: X509Certificate): Keys => {
    const id = spki(authority).toString('base64');
    const made = keys.get(id) ?? newKeys();
    keys.set(id, made);
    return made;
  };
  const copies = authorities.map((one) => {
    const issuer = [one, ...authorities].find((other) => one.checkIssued(other) && one.verify(other.publicKey));
    const copy = certificateFields(one)
      .with(ALGORITHM_AT, ALGORITHM)
      .with(PUBLIC_KEY_AT, spki(keysOf(one)));
    return signed('CERTIFICATE', copy, issuer === undefined ? newKeys() : keysOf(issuer));
  });
  const crl = lists.map(({ pem, authority }) => {
    const copy = fieldsOf(derOf(pem), TAG.integer).with(LIST_ALGORITHM_AT, ALGORITHM);
    return signed('X509 CRL', copy, keysOf(authority));
  });
  const trusting = { cert, key, ca: copies, ...(crl.length > 0 && { crl }) };
  const server = createServer({ ...trusting, requestCert: true, rejectUnauthorized: false });
  const faultOf = async (authority: X509Certificate, copy = ''): Promise<string | undefined> => {
    if (nowMs >= authority.validToDate.getTime()) return 'CERT_HAS_EXPIRED';
    if (nowMs < authority.validFromDate.getTime()) return 'CERT_NOT_YET_VALID';
    const own = keysOf(authority);
    const leafKeys = newKeys();
    const { ofClient } = await verdicts(server, client(leafOf(authority, own, leafKeys, nowMs), leafKeys));
    if (ofClient === undefined || claimsAuthority(authority)) return ofClient;
    // A producer's own certificate may be in the file instead of its authority.
    return (await verdicts(server, client(copy, own))).ofClient;
  };
  const faults: TrialFault[] = [];
  for (const [at, authority] of authorities.entries()) {
    const code = await faultOf(authority, copies[at]);
    if (code !== undefined) faults.push({ authority, code });
  }
  return faults;
}

const client = (cert: string, { privateKey }: Keys): ConnectionOptions => ({
  cert,
  key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
});

/** Connects in memory. Returns the faults that OpenSSL finds in both certificates. A failed handshake is in both. */
async function verdicts(server: Server, options: ConnectionOptions) {
  const [near, far] = duplexPair();
  const { promise: secured, resolve, reject } = Promise.withResolvers<TLSSocket>();
  server.once('secureConnection', resolve).once('tlsClientError', reject);
  const checkServerIdentity = (): undefined => undefined;
  const socket = connect({ ...options, socket: near, rejectUnauthorized: false, checkServerIdentity });
  // The client may fail first, and then the server waits.
  socket.on('error', reject).once('close', () => reject(new Error('the connection closed')));
  server.emit('connection', far);
  try {
    const accepted = await secured;
    const faultOf = ({ authorized, authorizationError }: TLSSocket): string | undefined =>
      authorized ? undefined : String(authorizationError);
    const both = { ofServer: faultOf(socket), ofClient: faultOf(accepted) };
    accepted.destroy();
    return both;
  } catch (cause) {
    const code = errno(cause);
    return { ofServer: code, ofClient: code };
  } finally {
    server.off('secureConnection', resolve).off('tlsClientError', reject);
    socket.destroy();
  }
}

/**
 * Returns the fields of a certificate or of a list (RFC 5280, sections 4.1 and 5.1). The version is optional in both;
 * the first field is empty if it is missing.
 */
function fieldsOf(signed: Buffer, versionTag: number): Buffer[] {
  const fields = inside(signedParts(signed)[0]);
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

const claimsAuthority = (certificate: X509Certificate): boolean =>
  inside(extensionOf(certificate, BASIC_CONSTRAINTS))[0]?.tag === TAG.boolean;

/** Issues a certificate without names, so that no name constraints apply to it. */
function leafOf(authority: X509Certificate, issuer: Keys, own: Keys, nowMs: number): string {
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
