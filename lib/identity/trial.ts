// Tries whether the gateway, with these authorities and lists, accepts certificates that the authorities sign.
//
// Only OpenSSL knows how it finds the issuer and the list of a certificate, and only a handshake shows its verdict. No
// authority's private key is here. Each certificate and list is therefore copied byte for byte except for the public
// key and the signature, which belong to a key made for the trial. Certificates signed with these keys then connect in
// memory. The certificate of the server is the real one.
import { createHash, generateKeyPairSync, sign, type KeyObject, type X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { duplexPair } from 'node:stream';
import {
  connect,
  createSecureContext,
  createServer,
  type SecureContextOptions,
  type Server,
  type TLSSocket,
} from 'node:tls';
import { certificateFields, der, derOf, elements, inside, pemOf, TAG, type Element } from './der.ts';

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

/** The DER of the algorithm ecdsa-with-SHA256. */
const ALGORITHM = Buffer.from('300a06082a8648ce3d040302', 'hex');
const BASIC_CONSTRAINTS = '551d13';
const SUBJECT_KEY_IDENTIFIER = '551d0e';
const AUTHORITY_KEY_IDENTIFIER = Buffer.from('0603551d23', 'hex');
/** Faults that end or begin with time, or that the lists intend. The others mean that the files do not work. */
const INTENDED = new Set(['CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID', 'CRL_HAS_EXPIRED', 'CERT_REVOKED']);
const YEAR_MS = 365 * 24 * 60 * 60 * 1000;

interface Keys {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

const newKeys = (): Keys => generateKeyPairSync('ec', { namedCurve: 'P-256' });
const spki = ({ publicKey }: Pick<Keys, 'publicKey'>): Buffer => publicKey.export({ type: 'spki', format: 'der' });
const pkcs8 = ({ privateKey }: Keys): string => String(privateKey.export({ type: 'pkcs8', format: 'pem' }));

function signed(body: Buffer, { privateKey }: Keys): Buffer {
  const signature = der(TAG.bits, Buffer.of(0), sign('sha256', body, privateKey));
  return der(TAG.sequence, body, ALGORITHM, signature);
}

/** Returns the faults that OpenSSL finds in these files. Authorities that are not valid now are not tried. */
export async function trialFaults(files: TrialFiles, nowMs: number): Promise<readonly TrialFault[]> {
  const keys = new Map<string, Keys>();
  const keysOf = (authority: X509Certificate): Keys => {
    const id = spki(authority).toString('base64');
    const made = keys.get(id) ?? newKeys();
    keys.set(id, made);
    return made;
  };
  const copies = new Map(files.authorities.map((one) => [one, copyOf(one, files.authorities, keysOf)]));
  const { cert, key } = files;
  const crl = files.lists.map(({ pem, authority }) => listCopy(pem, keysOf(authority)));
  const ca = [...copies.values()].join('');
  const server = createServer({ cert, key, ca, ...(crl.length > 0 && { crl }), ...SERVER });
  const ofServer = (await verdicts(createServer({ cert, key }), { ca: cert, allowPartialTrustChain: true })).ofServer;
  if (isFault(ofServer)) return [{ authority: undefined, code: ofServer }];
  const leafKeys = newKeys();
  const faults: TrialFault[] = [];
  for (const [authority, copy] of copies) {
    if (nowMs < authority.validFromDate.getTime() || nowMs >= authority.validToDate.getTime()) continue;
    const leaf = { cert: leafOf(authority, keysOf(authority), leafKeys, nowMs), key: pkcs8(leafKeys) };
    let code = await clientFault(server, leaf);
    // A producer's own certificate may be in the file instead of its authority.
    if (isFault(code) && !claimsAuthority(authority))
      code = await clientFault(server, { cert: copy, key: pkcs8(keysOf(authority)) });
    if (isFault(code)) faults.push({ authority, code });
  }
  return faults;
}

function claimsAuthority({ raw }: X509Certificate): boolean {
  const constraints = certificateFields(raw).extensions.find(({ id }) => id === BASIC_CONSTRAINTS)?.value;
  return constraints !== undefined && inside(elements(constraints)[0])[0]?.tag === TAG.boolean;
}

const isFault = (code: string | undefined): code is string => code !== undefined && !INTENDED.has(code);

const SERVER = { requestCert: true, rejectUnauthorized: false } as const;

type Client = Pick<SecureContextOptions, 'cert' | 'key' | 'ca' | 'allowPartialTrustChain'>;

const clientFault = async (server: Server, client: Client): Promise<string | undefined> =>
  (await verdicts(server, client)).ofClient;

/** Connects in memory. Returns OpenSSL's verdicts on both certificates, `undefined` if one is good. */
async function verdicts(server: Server, client: Client) {
  const [near, far] = duplexPair();
  const secured = once(server, 'secureConnection') as Promise<[TLSSocket]>;
  const secureContext = createSecureContext(client);
  const checkServerIdentity = (): undefined => undefined;
  const socket = connect({ socket: near, secureContext, rejectUnauthorized: false, checkServerIdentity });
  socket.on('error', () => undefined);
  server.emit('connection', far);
  try {
    const [accepted] = await secured;
    const codeOf = ({ authorized, authorizationError }: TLSSocket): string | undefined =>
      authorized ? undefined : String(authorizationError);
    const both = { ofServer: codeOf(socket), ofClient: codeOf(accepted) };
    accepted.destroy();
    return both;
  } finally {
    socket.destroy();
  }
}

function copyOf(
  authority: X509Certificate,
  authorities: readonly X509Certificate[],
  keysOf: (authority: X509Certificate) => Keys,
): string {
  const { fields, from } = certificateFields(authority.raw);
  const issuer = authorities.find((one) => authority.checkIssued(one) && authority.verify(one.publicKey));
  const raw = fields.map((field) => field.raw);
  raw[from + 1] = ALGORITHM;
  raw[from + 5] = spki(keysOf(authority));
  return pemOf('CERTIFICATE', signed(der(TAG.sequence, ...raw), issuer === undefined ? newKeys() : keysOf(issuer)));
}

function listCopy(pem: string, keys: Keys): string {
  const raw = inside(inside(elements(derOf(pem))[0])[0]);
  const at = raw[0]?.tag === TAG.integer ? 1 : 0;
  const fields = raw.map((field, index) => (index === at ? ALGORITHM : field.raw));
  return pemOf('X509 CRL', signed(der(TAG.sequence, ...fields), keys));
}

/** Issues a certificate without names, so that no name constraints apply to it. */
function leafOf(authority: X509Certificate, issuer: Keys, own: Keys, nowMs: number): string {
  const { subject, extensions } = certificateFields(authority.raw);
  const time = (ms: number): Buffer =>
    der(TAG.generalizedTime, Buffer.from(`${new Date(ms).toISOString().replaceAll(/\D/g, '').slice(0, 14)}Z`));
  const identifier = extensions.find(({ id }) => id === SUBJECT_KEY_IDENTIFIER)?.value;
  const [keyId] = identifier === undefined ? [] : elements(identifier);
  const serial = createHash('sha256').update(spki(own)).digest().subarray(0, 15);
  const body = der(
    TAG.sequence,
    der(0xa0, der(TAG.integer, Buffer.of(2))),
    der(TAG.integer, Buffer.of(0x40), serial),
    ALGORITHM,
    (subject as Element).raw,
    der(TAG.sequence, time(nowMs - YEAR_MS), time(nowMs + YEAR_MS)),
    der(TAG.sequence),
    spki(own),
    ...(keyId === undefined ? [] : [identifiedBy(keyId.content)]),
  );
  return pemOf('CERTIFICATE', signed(body, issuer));
}

const identifiedBy = (keyId: Buffer): Buffer => {
  const value = der(TAG.octets, der(TAG.sequence, der(0x80, keyId)));
  return der(0xa3, der(TAG.sequence, der(TAG.sequence, AUTHORITY_KEY_IDENTIFIER, value)));
};
