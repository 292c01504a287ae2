// Tries whether the gateway, with these authorities and lists, accepts certificates that the authorities sign.
//
// Only OpenSSL knows how it finds the issuer and the list of a certificate, and only a handshake shows its verdict. No
// authority's private key is here. Each certificate and list is therefore copied byte for byte except for the public
// key and the signature, which belong to a key made for the trial. Certificates signed with these keys then connect in
// memory. The certificate of the server is the real one.
import { generateKeyPairSync, sign, type KeyObject, type X509Certificate } from 'node:crypto';
import { duplexPair } from 'node:stream';
import { connect, createServer, type ConnectionOptions, type Server, type TLSSocket } from 'node:tls';
import { errno } from '../process/env.ts';
import { certificateFields, der, derOf, elements, inside, pemOf, signedParts, TAG } from './der.ts';

/** OpenSSL's name for the reason why it refuses the server certificate, or what the authority signed. */
export interface TrialFault {
  /** `undefined` for the server certificate. */
  readonly authority: X509Certificate | undefined;
  readonly code: string;
}

export interface TrialFiles {
  readonly cert: string;
  readonly key: string;
  readonly authorities: readonly X509Certificate[];
  /** Lists in PEM format, each with the authority that signed it. */
  readonly lists: readonly { readonly pem: string; readonly authority: X509Certificate }[];
}

interface Keys {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

/** The DER of the algorithm ecdsa-with-SHA256. */
const ALGORITHM = Buffer.from('300a06082a8648ce3d040302', 'hex');
const BASIC_CONSTRAINTS = '551d13';
const SUBJECT_KEY_IDENTIFIER = '551d0e';
const AUTHORITY_KEY_IDENTIFIER = Buffer.from('0603551d23', 'hex');
/** Faults that end or begin with time, or that the lists intend. The others mean that the files do not work. */
const INTENDED = new Set(['CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID', 'CRL_HAS_EXPIRED', 'CERT_REVOKED']);
const YEAR_MS = 365 * 24 * 60 * 60 * 1000;

const newKeys = (): Keys => generateKeyPairSync('ec', { namedCurve: 'P-256' });
const spki = ({ publicKey }: Pick<Keys, 'publicKey'>): Buffer => publicKey.export({ type: 'spki', format: 'der' });

/** Returns the first fault that OpenSSL finds. Authorities that are not valid now are not tried. */
export async function trialFault(files: TrialFiles, nowMs: number): Promise<TrialFault | undefined> {
  const { cert, key, authorities, lists } = files;
  const ofServer = (await verdicts(createServer({ cert, key }), { ca: cert, allowPartialTrustChain: true })).ofServer;
  if (ofServer !== undefined) return { authority: undefined, code: ofServer };
  const keys = new Map<string, Keys>();
  const keysOf = (authority: X509Certificate): Keys => {
    const id = spki(authority).toString('base64');
    const made = keys.get(id) ?? newKeys();
    keys.set(id, made);
    return made;
  };
  const copies = new Map(authorities.map((one) => [one, copyOf(one, authorities, keysOf)]));
  const server = createServer({
    ...{ cert, key, ca: [...copies.values()], requestCert: true, rejectUnauthorized: false },
    ...(lists.length > 0 && { crl: lists.map(({ pem, authority }) => listCopy(pem, keysOf(authority))) }),
  });
  for (const [authority, copy] of copies) {
    if (nowMs < authority.validFromDate.getTime() || nowMs >= authority.validToDate.getTime()) continue;
    const own = keysOf(authority);
    const leafKeys = newKeys();
    let { ofClient: code } = await verdicts(server, client(leafOf(authority, own, leafKeys, nowMs), leafKeys));
    // A producer's own certificate may be in the file instead of its authority.
    if (code !== undefined && !claimsAuthority(authority)) code = (await verdicts(server, client(copy, own))).ofClient;
    if (code !== undefined) return { authority, code };
  }
  return undefined;
}

function claimsAuthority({ raw }: X509Certificate): boolean {
  const constraints = certificateFields(raw).extensions.find(({ id }) => id === BASIC_CONSTRAINTS)?.value;
  return constraints !== undefined && inside(elements(constraints)[0])[0]?.tag === TAG.boolean;
}

const client = (cert: string, { privateKey }: Keys): ConnectionOptions => ({
  cert,
  key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
});

/**
 * Connects in memory. Returns the faults that OpenSSL finds in both certificates, without the intended ones. A failed
 * handshake is a fault of both.
 */
async function verdicts(server: Server, options: ConnectionOptions) {
  const [near, far] = duplexPair();
  const { promise: secured, resolve, reject } = Promise.withResolvers<TLSSocket>();
  server.once('secureConnection', resolve).once('tlsClientError', reject);
  const checkServerIdentity = (): undefined => undefined;
  const socket = connect({ ...options, socket: near, rejectUnauthorized: false, checkServerIdentity });
  socket.on('error', () => undefined);
  server.emit('connection', far);
  try {
    const accepted = await secured;
    const faultOf = ({ authorized, authorizationError }: TLSSocket): string | undefined => {
      const code = String(authorizationError);
      return authorized || INTENDED.has(code) ? undefined : code;
    };
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

function signed(label: string, fields: readonly Uint8Array[], { privateKey }: Keys): string {
  const body = der(TAG.sequence, ...fields);
  const signature = der(TAG.bits, Buffer.of(0), sign('sha256', body, privateKey));
  return pemOf(label, der(TAG.sequence, body, ALGORITHM, signature));
}

function copyOf(
  authority: X509Certificate,
  authorities: readonly X509Certificate[],
  keysOf: (authority: X509Certificate) => Keys,
): string {
  const { fields, from } = certificateFields(authority.raw);
  const issuer = authorities.find((one) => authority.checkIssued(one) && authority.verify(one.publicKey));
  const copy = fields
    .map(({ raw }) => raw)
    .with(from + 1, ALGORITHM)
    .with(from + 5, spki(keysOf(authority)));
  return signed('CERTIFICATE', copy, issuer === undefined ? newKeys() : keysOf(issuer));
}

function listCopy(pem: string, keys: Keys): string {
  const fields = inside(signedParts(derOf(pem))[0]);
  const at = fields[0]?.tag === TAG.integer ? 1 : 0;
  return signed('X509 CRL', fields.map(({ raw }) => raw).with(at, ALGORITHM), keys);
}

/** Issues a certificate without names, so that no name constraints apply to it. */
function leafOf({ raw }: X509Certificate, issuer: Keys, own: Keys, nowMs: number): string {
  const { subject, extensions } = certificateFields(raw);
  const time = (ms: number): Buffer =>
    der(TAG.generalizedTime, Buffer.from(`${new Date(ms).toISOString().replaceAll(/\D/g, '').slice(0, 14)}Z`));
  const identifier = extensions.find(({ id }) => id === SUBJECT_KEY_IDENTIFIER)?.value;
  const [keyId] = identifier === undefined ? [] : elements(identifier);
  const fields = [
    der(0xa0, der(TAG.integer, Buffer.of(2))),
    der(TAG.integer, Buffer.of(0x40), spki(own).subarray(-15)),
    ALGORITHM,
    subject?.raw ?? Buffer.alloc(0),
    der(TAG.sequence, time(nowMs - YEAR_MS), time(nowMs + YEAR_MS)),
    der(TAG.sequence),
    spki(own),
    ...(keyId === undefined ? [] : [identifiedBy(keyId.content)]),
  ];
  return signed('CERTIFICATE', fields, issuer);
}

const identifiedBy = (keyId: Buffer): Buffer => {
  const value = der(TAG.octets, der(TAG.sequence, der(0x80, keyId)));
  return der(0xa3, der(TAG.sequence, der(TAG.sequence, AUTHORITY_KEY_IDENTIFIER, value)));
};
