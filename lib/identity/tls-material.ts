// Loads the PEM files for TLS and checks them together.
//
// Invariant: the material in use includes every configured file. A reload without the revocation list is refused,
// because revoked certificates would be accepted again.
import { createPrivateKey, hash, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import { ClientTrust } from './client-trust.ts';
import { nameOf, readRevocationList, type RevocationList } from './revocation-list.ts';
import { trialFault, type TrialFault } from './trial.ts';
import type { Clock } from '../process/clock.ts';
import { errno } from '../process/env.ts';
import { messageOf } from '../process/message-of.ts';
import { allStarted, EXIT, StartFailure } from '../process/program.ts';
import { reloadable, type Reloadable } from '../process/reloadable.ts';

/** Paths of PEM files. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string;
  readonly clientCrl?: string;
}

export interface TlsMaterial {
  readonly context: SecureContextOptions;
  readonly trust: ClientTrust;
  /** Two materials with the same digest trust the same clients. */
  readonly trustDigest: string;
  /** Tells that the server certificate has expired, or that no authority is usable. */
  readonly expired: string | undefined;
  /** Authorities and lists that do not work now, beside others that do. */
  readonly warnings: readonly string[];
  /** When each file expires, in Unix milliseconds. A revocation list expires when its next update is due. */
  readonly expiry: readonly { readonly file: 'cert' | 'client_ca' | 'crl'; readonly atMs: number }[];
}

const KEYS = {
  cert: 'INGEST_TLS_CERT',
  key: 'INGEST_TLS_KEY',
  clientCa: 'INGEST_TLS_CLIENT_CA',
  clientCrl: 'INGEST_TLS_CLIENT_CRL',
} as const;

const place = (files: TlsFiles, file: keyof TlsFiles): string => `${KEYS[file]}=${JSON.stringify(files[file])}`;

const refused = (message: string): StartFailure => new StartFailure(EXIT.configuration, message);

/** Rejects with a StartFailure that names each file that cannot be read, or else the first file that cannot be used. */
export async function loadTlsMaterial(files: TlsFiles, nowMs: number): Promise<TlsMaterial> {
  const [own, keyBlocks, authorities, listBlocks] = await allStarted([
    certificatesIn(files, 'cert'),
    pemBlocks(files, 'key', /./, 'a private key'),
    certificatesIn(files, 'clientCa'),
    files.clientCrl === undefined ? undefined : pemBlocks(files, 'clientCrl', /^X509 CRL$/, 'a revocation list'),
  ]);
  const cert = own.blocks.join('');
  const key = keyBlocks.join('');
  const ca = authorities.blocks.join('');
  // Node uses only the first list in a string, so each list is a string of its own.
  const context: SecureContextOptions = { cert, key, ca, ...(listBlocks && { crl: listBlocks }) };
  assertUsable(context, files, authorities.blocks);
  // OpenSSL compares a key only with a certificate of the same kind.
  if (own.certificates[0]?.checkPrivateKey(createPrivateKey(key)) !== true)
    throw refused(`${place(files, 'cert')}, ${place(files, 'key')}: the key belongs to another certificate`);
  const later = own.certificates.find(({ validFromDate }) => validFromDate.getTime() > nowMs);
  if (later !== undefined) {
    const from = later.validFromDate.toISOString();
    throw refused(`${place(files, 'cert')}: the certificate of ${nameOf(later)} is valid only from ${from} on`);
  }
  const lists = (listBlocks ?? []).map((pem) => revocationList(pem, files, authorities.certificates));
  const trust = new ClientTrust(authorities.certificates, lists);
  const fault = await trialFault({ cert, key, lists, authorities: trust.authorities }, nowMs);
  if (fault !== undefined) throw refused(faultText(fault, files, trust.authorities));
  const listMs = trust.listExpiryMs(nowMs);
  const unusable = unusableAuthorities(files, trust, nowMs);
  const noneLeft = unusable.length === trust.authorities.length ? unusable.join('\n') : undefined;
  return {
    context,
    trust,
    warnings: noneLeft === undefined ? [...unusable, ...sharedNames(files, trust.authorities)] : [],
    expired: earliest(own.certificates) < nowMs ? `${place(files, 'cert')}: it has expired` : noneLeft,
    trustDigest: hash('sha256', JSON.stringify([ca, listBlocks])),
    expiry: [
      { file: 'cert', atMs: earliest(own.certificates) },
      { file: 'client_ca', atMs: earliest(trust.authorities) },
      ...(listMs === Number.POSITIVE_INFINITY ? [] : [{ file: 'crl' as const, atMs: listMs }]),
    ],
  };
}

const earliest = (list: readonly X509Certificate[]): number =>
  Math.min(...list.map(({ validToDate }) => validToDate.getTime()));

/** Returns the matching blocks of a PEM file, also if they are joined without a line break. */
async function pemBlocks(files: TlsFiles, file: keyof TlsFiles, label: RegExp, what: string): Promise<string[]> {
  const bytes = await readFile(files[file] ?? '').catch((cause: unknown) => {
    throw refused(`${place(files, file)}: expected a readable PEM file (${errno(cause)})`);
  });
  const text = bytes.toString('utf8').replaceAll(/^[ \t]+|[ \t\r]+$/gm, '');
  const blocks = [...text.matchAll(/-----BEGIN ([^-\n]+)-----(?:(?!-----)[^])*-----END \1-----/g)];
  // A marker that is damaged has no partner, or fewer hyphens than five.
  if ((text.match(/-(?:BEGIN|END)\b/g) ?? []).length !== 2 * blocks.length)
    throw refused(`${place(files, file)}: a part of it is cut off: each BEGIN line needs its END line`);
  const found = blocks.flatMap(([block, name = '']) => (label.test(name) ? [`${block}\n`] : []));
  if (found.length === 0) throw refused(`${place(files, file)}: expected a PEM file with ${what}`);
  return found;
}

async function certificatesIn(files: TlsFiles, file: 'cert' | 'clientCa') {
  const blocks = await pemBlocks(files, file, /^(?:TRUSTED |X509 )?CERTIFICATE$/, 'a certificate');
  try {
    return { blocks, certificates: blocks.map((block) => new X509Certificate(block)) };
  } catch (cause) {
    throw refused(`${place(files, file)}: a certificate in it cannot be read (${messageOf(cause)})`);
  }
}

/** Throws a StartFailure that names the first file that OpenSSL refuses, or the two files that do not match. */
function assertUsable(context: SecureContextOptions, files: TlsFiles, authorities: readonly string[]): void {
  const { cert, key, ca, crl } = context;
  const assertTaken = (name: string, options: SecureContextOptions, why = 'the file cannot be used'): void => {
    try {
      createSecureContext(options);
    } catch (cause) {
      throw refused(`${name}: ${why} (${messageOf(cause)})`);
    }
  };
  assertTaken(place(files, 'cert'), { cert });
  assertTaken(place(files, 'key'), { key });
  assertTaken(`${place(files, 'cert')}, ${place(files, 'key')}`, { cert, key }, 'the files do not work together');
  // OpenSSL checks the strength of keys in certificates of its own at this time, and of authorities in handshakes.
  for (const one of authorities) assertTaken(place(files, 'clientCa'), { cert: one });
  assertTaken(place(files, crl === undefined ? 'clientCa' : 'clientCrl'), { ca, crl });
}

function revocationList(pem: string, files: TlsFiles, authorities: readonly X509Certificate[]): RevocationList {
  try {
    return readRevocationList(pem, authorities);
  } catch (cause) {
    throw refused(`${place(files, 'clientCrl')}: ${messageOf(cause)}`);
  }
}

function faultText({ authority, code }: TrialFault, files: TlsFiles, authorities: readonly X509Certificate[]): string {
  if (authority === undefined) return `${place(files, 'cert')}: a client would refuse the certificate (${code})`;
  const ofList = code.includes('CRL');
  const advice = ofList ? 'list needs an authorityKeyIdentifier' : 'authority needs a subjectKeyIdentifier';
  const isShared = authorities.some(({ subject, raw }) => subject === authority.subject && raw !== authority.raw);
  return (
    `${place(files, ofList ? 'clientCrl' : 'clientCa')}: OpenSSL refuses every producer of ${nameOf(authority)} (${code})` +
    (ofList ? ': every authority needs a current revocation list' : '') +
    (isShared ? `; another authority has this name, so each ${advice}` : '')
  );
}

export function tlsReloadable(files: TlsFiles, clock: Clock): Promise<Reloadable<TlsMaterial>> {
  const paths = Object.keys(KEYS).flatMap((file) => files[file as keyof TlsFiles] ?? []);
  return reloadable(paths, async (lastGood) => {
    const material = await loadTlsMaterial(files, clock.epochMs());
    // At startup, expired files are accepted, because the process has no better ones.
    if (lastGood !== undefined && material.expired !== undefined) throw refused(material.expired);
    return material;
  });
}

/** Returns a message for each authority whose producers are refused at this time. */
function unusableAuthorities(files: TlsFiles, trust: ClientTrust, nowMs: number): string[] {
  return trust.unusable(nowMs).map(({ authority, why }) => {
    const ofList = why === 'no_current_revocation_list';
    const what = ofList ? `the list of ${nameOf(authority)}` : nameOf(authority);
    const begins = authority.validFromDate.getTime() > nowMs;
    const state = why === 'revoked' ? 'is revoked' : begins ? 'is not valid yet' : 'has expired';
    return `${place(files, ofList ? 'clientCrl' : 'clientCa')}: ${what} ${state}, so its producers are refused`;
  });
}

/** Returns a warning for each name of two authorities whose keys differ, because the name may be all that is known. */
function sharedNames(files: TlsFiles, list: readonly X509Certificate[]): string[] {
  const shared = list.filter((one, at) =>
    list.slice(0, at).some((other) => other.subject === one.subject && !other.publicKey.equals(one.publicKey)),
  );
  return [...new Set(shared.map(nameOf))].map(
    (name) =>
      `${place(files, 'clientCa')}: two authorities are named ${name}: producers of the second one are refused ` +
      'if their certificates have no authorityKeyIdentifier',
  );
}
