// Loads the PEM files for TLS and checks them together.
//
// Invariant: the material in use includes every configured file. A reload without the revocation list is refused,
// because revoked certificates would be accepted again.
import { createHash, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import { ClientTrust } from './client-trust.ts';
import { readRevocationList, type RevocationList } from './revocation-list.ts';
import { trialFaults, type TrialFiles } from './trial.ts';
import type { Clock } from '../process/clock.ts';
import { errno } from '../process/env.ts';
import { messageOf } from '../process/message-of.ts';
import { EXIT, StartFailure } from '../process/program.ts';
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

const refused = (message: string): StartFailure => new StartFailure(EXIT.configuration, message);

const KEYS = { cert: 'INGEST_TLS_CERT', key: 'INGEST_TLS_KEY', clientCa: 'INGEST_TLS_CLIENT_CA' } as const;
const LIST_KEY = 'INGEST_TLS_CLIENT_CRL';

/** Rejects with a StartFailure that names each file that cannot be read, or else the first file that cannot be used. */
export async function loadTlsMaterial(files: TlsFiles, nowMs: number): Promise<TlsMaterial> {
  const reading = [
    certificates(KEYS.cert, files.cert),
    pemBlocks(KEYS.key, files.key),
    certificates(KEYS.clientCa, files.clientCa),
    files.clientCrl === undefined ? Promise.resolve(undefined) : pemBlocks(LIST_KEY, files.clientCrl),
  ] as const;
  const read = await Promise.allSettled(reading);
  const wrong = read.flatMap((one) => (one.status === 'rejected' ? [messageOf(one.reason)] : []));
  if (wrong.length > 0) throw refused(wrong.join('\n'));
  const [own, keyBlocks, authorities, listBlocks] = await Promise.all(reading);
  const [cert, ca] = [textOf(own), textOf(authorities)];
  if (keyBlocks.length === 0) throw refused(`${place(KEYS.key, files.key)}: expected a PEM file with a private key`);
  const key = keyBlocks.map(({ text }) => text).join('');
  // Node uses only the first list in a string, so each list is a string of its own.
  const lists = listBlocks?.filter(({ label }) => label === 'X509 CRL').map(({ text }) => text);
  if (lists?.length === 0) throw wrongList(files, 'expected a PEM file with at least one revocation list');
  const context: SecureContextOptions = { cert, key, ca, ...(lists && { crl: lists }) };
  assertUsable(context, files, authorities);
  assertBegun(files, own, nowMs);
  const revocations = (lists ?? []).map((list) => revocationsOf(list, files, authorities, nowMs));
  const trust = new ClientTrust(certificatesOf(authorities), revocations);
  const without = trust.withoutList(nowMs);
  if (lists !== undefined && without.length > 0) {
    const names = without.map(nameOf).join(', ');
    throw wrongList(files, `expected a revocation list of each authority in ${KEYS.clientCa}; missing: ${names}`);
  }
  await assertWorking(files, { cert, key, revocations, authorities: certificatesOf(authorities) }, nowMs);
  const listMs = trust.listExpiryMs(nowMs);
  const unusable = unusableAuthorities(files, trust, nowMs);
  const noneLeft = unusable.length === authorities.length ? unusable.join('\n') : undefined;
  return {
    context,
    trust,
    warnings: noneLeft === undefined ? [...unusable, ...sharedNames(files, trust.authorities)] : [],
    expired: earliest(own) < nowMs ? `${place(KEYS.cert, files.cert)}: it has expired` : noneLeft,
    trustDigest: createHash('sha256')
      .update(JSON.stringify([ca, lists]))
      .digest('hex'),
    expiry: [
      { file: 'cert', atMs: earliest(own) },
      { file: 'client_ca', atMs: earliest(authorities) },
      ...(listMs === Number.POSITIVE_INFINITY ? [] : [{ file: 'crl' as const, atMs: listMs }]),
    ],
  };
}

const place = (key: string, path: string | undefined): string => `${key}=${JSON.stringify(path)}`;

const wrongList = ({ clientCrl }: TlsFiles, why: string): StartFailure =>
  refused(`${place(LIST_KEY, clientCrl)}: ${why}`);

const nameOf = ({ subject }: X509Certificate): string => JSON.stringify(subject.replaceAll('\n', ', '));

/** Throws a StartFailure that names the first file that OpenSSL refuses, or the two files that do not match. */
function assertUsable({ cert, key, ca, crl }: SecureContextOptions, files: TlsFiles, authorities: Certificates): void {
  const certName = place(KEYS.cert, files.cert);
  const keyName = place(KEYS.key, files.key);
  const caName = place(KEYS.clientCa, files.clientCa);
  const fault = 'the file cannot be used';
  const parts: readonly (readonly [name: string, context: SecureContextOptions, fault: string])[] = [
    [certName, { cert }, fault],
    [keyName, { key }, fault],
    [`${certName}, ${keyName}`, { cert, key }, 'the files do not work together'],
    // OpenSSL checks the strength of keys in certificates of its own at this time, and of authorities in handshakes.
    ...authorities.map(({ text }) => [caName, { cert: text }, fault] as const),
    [caName, { ca }, fault],
    [place(LIST_KEY, files.clientCrl), { ca, crl }, fault],
  ];
  for (const [name, context, why] of parts)
    try {
      createSecureContext(context);
    } catch (cause) {
      throw refused(`${name}: ${why} (${messageOf(cause)})`);
    }
}

function assertBegun({ cert }: TlsFiles, own: Certificates, nowMs: number): void {
  const later = own.find(({ certificate }) => certificate.validFromDate.getTime() > nowMs)?.certificate;
  if (later === undefined) return;
  const from = later.validFromDate.toISOString();
  throw refused(`${place(KEYS.cert, cert)}: the certificate of ${nameOf(later)} is valid only from ${from} on`);
}

/** Throws a StartFailure if OpenSSL would refuse the server certificate, or all certificates of an authority. */
async function assertWorking(
  files: TlsFiles,
  { revocations, ...parts }: Omit<TrialFiles, 'lists'> & { readonly revocations: TrialFiles['lists'] },
  nowMs: number,
): Promise<void> {
  const [fault] = await trialFaults({ ...parts, lists: revocations }, nowMs);
  if (fault === undefined) return;
  const { authority, code } = fault;
  if (authority === undefined)
    throw refused(`${place(KEYS.cert, files.cert)}: a client would refuse the certificate (${code})`);
  const others = parts.authorities.filter(({ subject, raw }) => subject === authority.subject && raw !== authority.raw);
  const advice = (identifier: string): string =>
    others.length === 0 ? '' : `; another authority has this name, so each ${identifier}`;
  const name = nameOf(authority);
  if (code.includes('CRL'))
    throw wrongList(
      files,
      `with the list of ${name}, OpenSSL refuses every producer of that authority (${code})` +
        advice('list needs an authorityKeyIdentifier'),
    );
  throw refused(
    `${place(KEYS.clientCa, files.clientCa)}: OpenSSL refuses every producer of ${name} (${code})` +
      advice('authority needs a subjectKeyIdentifier'),
  );
}

type Certificates = readonly { readonly text: string; readonly certificate: X509Certificate }[];

const certificatesOf = (list: Certificates): X509Certificate[] => list.map(({ certificate }) => certificate);

const textOf = (list: Certificates): string => list.map(({ text }) => text).join('');

const earliest = (list: Certificates): number =>
  Math.min(...list.map(({ certificate }) => certificate.validToDate.getTime()));

interface PemBlock {
  readonly label: string;
  readonly text: string;
}

/** Returns the blocks of a PEM file, also if they are joined without a line break. Rejects with a StartFailure. */
async function pemBlocks(key: string, path: string): Promise<readonly PemBlock[]> {
  const file = await readFile(path).catch((cause: unknown) => {
    throw refused(`${place(key, path)}: expected a readable PEM file (${errno(cause)})`);
  });
  const text = file.toString('utf8');
  const found: PemBlock[] = [];
  // A marker that is damaged has no partner, or fewer hyphens than five.
  const markers = [...text.matchAll(/-----(BEGIN|END) ([^-\n]+)-----/g)];
  let isWhole = markers.length % 2 === 0 && markers.length === (text.match(/-(?:BEGIN|END)\b/g) ?? []).length;
  for (let at = 0; isWhole && at < markers.length; at += 2) {
    const [begin, end] = [markers[at], markers[at + 1]] as [RegExpExecArray, RegExpExecArray];
    const [, kind, label = ''] = begin;
    isWhole = kind === 'BEGIN' && end[1] === 'END' && end[2] === label;
    const block = text.slice(begin.index, end.index + end[0].length);
    found.push({ label, text: `${block.replaceAll(/^[ \t]+|[ \t\r]+$/gm, '')}\n` });
  }
  if (!isWhole) throw refused(`${place(key, path)}: a part of it is cut off: each BEGIN line needs its END line`);
  return found;
}

async function certificates(key: string, path: string): Promise<Certificates> {
  const blocks = (await pemBlocks(key, path)).filter(({ label }) => /^(?:TRUSTED |X509 )?CERTIFICATE$/.test(label));
  try {
    const list = blocks.map(({ text }) => ({ text, certificate: new X509Certificate(text) }));
    if (list.length > 0) return list;
  } catch {
    // The failure is reported below.
  }
  throw refused(`${place(key, path)}: expected a PEM file with at least one certificate`);
}

function revocationsOf(pem: string, files: TlsFiles, authorities: Certificates, nowMs: number) {
  let list: RevocationList;
  try {
    list = readRevocationList(pem);
  } catch (cause) {
    throw wrongList(files, `a list in it cannot be read (${messageOf(cause)})`);
  }
  const { issuer, thisUpdateMs, nextUpdateMs, serials, unusable } = list;
  const authority = certificatesOf(authorities).find((one) => list.isBy(one));
  if (authority === undefined) throw wrongList(files, `a list in it is signed by no certificate in ${KEYS.clientCa}`);
  const name = JSON.stringify(issuer);
  if (unusable !== undefined)
    throw wrongList(files, `the list of ${name} cannot be used because of its extension: ${unusable}`);
  if (thisUpdateMs > nowMs)
    throw wrongList(files, `the list of ${name} is valid only from ${new Date(thisUpdateMs).toISOString()} on`);
  return { pem, authority, serials, nextUpdateMs };
}

export function tlsReloadable(files: TlsFiles, clock: Clock): Promise<Reloadable<TlsMaterial>> {
  const { cert, key, clientCa, clientCrl } = files;
  const paths = [cert, key, clientCa, ...(clientCrl === undefined ? [] : [clientCrl])];
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
    const key = ofList ? place(LIST_KEY, files.clientCrl) : place(KEYS.clientCa, files.clientCa);
    const what = ofList ? `the list of ${nameOf(authority)}` : nameOf(authority);
    const begins = authority.validFromDate.getTime() > nowMs;
    const state = why === 'revoked' ? 'is revoked' : begins ? 'is not valid yet' : 'has expired';
    return `${key}: ${what} ${state}, so its producers are refused`;
  });
}

/** Returns a warning for each name of two authorities whose keys differ, because the name may be all that is known. */
function sharedNames({ clientCa }: TlsFiles, list: readonly X509Certificate[]): string[] {
  const shared = list.filter((one, at) =>
    list.slice(0, at).some((other) => other.subject === one.subject && !other.publicKey.equals(one.publicKey)),
  );
  return [...new Set(shared.map(nameOf))].map(
    (name) =>
      `${place(KEYS.clientCa, clientCa)}: two authorities are named ${name}: producers of the second one are refused ` +
      'if their certificates have no authorityKeyIdentifier',
  );
}
