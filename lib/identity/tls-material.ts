// Loads the PEM files for TLS and checks them together.
//
// Invariant: the material in use includes every configured file. A reload without the revocation list is refused,
// because revoked certificates would be accepted again.
import { createHash, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import { ClientTrust, type Revocations } from './client-trust.ts';
import { readRevocationList, type RevocationList } from './revocation-list.ts';
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
  /** When each file expires, in Unix milliseconds. A revocation list expires when its next update is due. */
  readonly expiry: readonly { readonly file: 'cert' | 'client_ca' | 'crl'; readonly atMs: number }[];
}

const refused = (message: string): StartFailure => new StartFailure(EXIT.configuration, message);

/** Rejects with a StartFailure that names each file that cannot be read, or else the first file that cannot be used. */
export async function loadTlsMaterial(files: TlsFiles, nowMs: number): Promise<TlsMaterial> {
  const reading = [
    certificates('INGEST_TLS_CERT', files.cert),
    pem('INGEST_TLS_KEY', files.key),
    certificates('INGEST_TLS_CLIENT_CA', files.clientCa),
    files.clientCrl === undefined ? Promise.resolve(undefined) : pem('INGEST_TLS_CLIENT_CRL', files.clientCrl),
  ] as const;
  const read = await Promise.allSettled(reading);
  const wrong = read.flatMap((one) => (one.status === 'rejected' ? [messageOf(one.reason)] : []));
  if (wrong.length > 0) throw refused(wrong.join('\n'));
  const [{ text: cert, list: own }, key, { text: ca, list: authorities }, crl] = await Promise.all(reading);
  const wrongList = (why: string): StartFailure =>
    refused(`INGEST_TLS_CLIENT_CRL=${JSON.stringify(files.clientCrl)}: ${why}`);
  // Node uses only the first list in a string, so each list is a string of its own.
  const lists = crl === undefined ? undefined : blocks(crl, 'X509 CRL');
  if (lists?.length === 0) throw wrongList('expected a PEM file with at least one revocation list');
  const context: SecureContextOptions = { cert, key, ca, ...(lists && { crl: lists }) };
  assertUsable(context, files);
  const revocations = (lists ?? []).map((list) => revocationsOf(list, authorities, nowMs, wrongList));
  const trust = new ClientTrust(authorities, revocations);
  const without = trust.withoutList(nowMs);
  if (lists !== undefined && without.length > 0) {
    const names = without.map(({ subject }) => JSON.stringify(subject.replaceAll('\n', ', '))).join(', ');
    throw wrongList(`expected a revocation list of each authority in INGEST_TLS_CLIENT_CA; missing: ${names}`);
  }
  const nextUpdates = revocations.flatMap((list) => list.nextUpdateMs ?? []);
  return {
    context,
    trust,
    trustDigest: createHash('sha256')
      .update(JSON.stringify([ca, crl]))
      .digest('hex'),
    expiry: [
      { file: 'cert', atMs: earliest(own) },
      { file: 'client_ca', atMs: earliest(authorities) },
      ...(nextUpdates.length === 0 ? [] : [{ file: 'crl' as const, atMs: Math.min(...nextUpdates) }]),
    ],
  };
}

/** Throws a StartFailure that names the first file that OpenSSL refuses, or the two files that do not match. */
function assertUsable({ cert, key, ca, crl }: SecureContextOptions, files: TlsFiles): void {
  const certName = `INGEST_TLS_CERT=${JSON.stringify(files.cert)}`;
  const keyName = `INGEST_TLS_KEY=${JSON.stringify(files.key)}`;
  const parts: readonly (readonly [name: string, context: SecureContextOptions, fault: string])[] = [
    [certName, { cert }, 'the file cannot be used'],
    [keyName, { key }, 'the file cannot be used'],
    [`${certName}, ${keyName}`, { cert, key }, 'the files do not work together'],
    [`INGEST_TLS_CLIENT_CA=${JSON.stringify(files.clientCa)}`, { ca }, 'the file cannot be used'],
    [`INGEST_TLS_CLIENT_CRL=${JSON.stringify(files.clientCrl)}`, { ca, crl }, 'the file cannot be used'],
  ];
  for (const [name, context, fault] of parts)
    try {
      createSecureContext(context);
    } catch (cause) {
      throw refused(`${name}: ${fault} (${messageOf(cause)})`);
    }
}

const earliest = (list: readonly X509Certificate[]): number =>
  Math.min(...list.map((one) => one.validToDate.getTime()));

async function pem(key: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw refused(`${key}=${JSON.stringify(path)}: expected a readable PEM file (${errno(cause)})`);
  }
}

function blocks(text: string, label: string): string[] {
  return text.match(new RegExp(`-----BEGIN ${label}-----[\\s\\S]*?-----END ${label}-----`, 'g')) ?? [];
}

async function certificates(key: string, path: string) {
  const text = await pem(key, path);
  try {
    const list = blocks(text, '(?:TRUSTED |X509 )?CERTIFICATE').map((block) => new X509Certificate(block));
    if (list.length > 0) return { text, list };
  } catch {
    // The failure is reported below.
  }
  throw refused(`${key}=${JSON.stringify(path)}: expected a PEM file with at least one certificate`);
}

function revocationsOf(
  pemBlock: string,
  authorities: readonly X509Certificate[],
  nowMs: number,
  wrongList: (why: string) => StartFailure,
): Revocations {
  let list: RevocationList;
  try {
    list = readRevocationList(pemBlock);
  } catch (cause) {
    throw wrongList(`a list in it cannot be read (${messageOf(cause)})`);
  }
  const { issuer, thisUpdateMs, nextUpdateMs, serials } = list;
  const authority = authorities.find((one) => list.isBy(one));
  if (authority === undefined) throw wrongList('a list in it is signed by no certificate in INGEST_TLS_CLIENT_CA');
  if (thisUpdateMs > nowMs) {
    const from = new Date(thisUpdateMs).toISOString();
    throw wrongList(`the list of ${JSON.stringify(issuer)} is valid only from ${from} on`);
  }
  return { authority, serials, nextUpdateMs };
}

export function tlsReloadable(files: TlsFiles, clock: Clock): Promise<Reloadable<TlsMaterial>> {
  const { cert, key, clientCa, clientCrl } = files;
  const paths = [cert, key, clientCa, ...(clientCrl === undefined ? [] : [clientCrl])];
  return reloadable(paths, async (lastGood) => {
    const material = await loadTlsMaterial(files, clock.epochMs());
    const expired = expiredFile(files, material, clock.epochMs());
    // At startup, expired files are accepted, because the process has no better ones.
    if (lastGood !== undefined && expired !== undefined) throw refused(expired);
    return material;
  });
}

/** Returns an error message for the first expired file, or undefined if no file has expired. */
export function expiredFile(files: TlsFiles, { expiry }: TlsMaterial, nowMs: number): string | undefined {
  const expired = expiry.find(({ atMs }) => atMs < nowMs);
  if (expired === undefined) return undefined;
  const [key, path] = {
    cert: ['INGEST_TLS_CERT', files.cert],
    client_ca: ['INGEST_TLS_CLIENT_CA', files.clientCa],
    crl: ['INGEST_TLS_CLIENT_CRL', files.clientCrl],
  }[expired.file];
  return `${key}=${JSON.stringify(path)}: it has expired`;
}
