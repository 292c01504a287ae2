// Loads the PEM files for TLS and checks them together.
//
// Invariant: the material in use includes every configured file. A reload without the revocation list is refused,
// because revoked certificates would be accepted again.
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import { ClientTrust, serverFault } from './client-trust.ts';
import { nameOf, quoted, readRevocationList, type RevocationList } from './revocation-list.ts';
import type { Clock } from '../process/clock.ts';
import { messageOf } from '../process/message-of.ts';
import { errno, readOperatorFile, type ReadFile } from '../process/operator-file.ts';
import { allStarted, EXIT, StartFailure } from '../process/program.ts';
import { reloadable, type Reloadable } from '../process/reloadable.ts';

export type TlsFiles = Readonly<Record<'cert' | 'key' | 'clientCa', string> & { clientCrl?: string }>;

export interface TlsMaterial {
  readonly context: SecureContextOptions;
  readonly trust: ClientTrust;
  /** Tells that the server certificate has expired, or that no authority is usable. */
  readonly expired: string | undefined;
  /** Authorities and lists that do not work now, beside others that do. */
  readonly warnings: readonly string[];
  /** When `cert`, `client_ca` and `crl` (at its next update) expire, in Unix milliseconds. */
  readonly expiry: readonly { readonly file: string; readonly atMs: number }[];
}

const KEYS = {
  cert: 'INGEST_TLS_CERT',
  key: 'INGEST_TLS_KEY',
  clientCa: 'INGEST_TLS_CLIENT_CA',
  clientCrl: 'INGEST_TLS_CLIENT_CRL',
} as const;

const settingOf = (files: TlsFiles, file: keyof TlsFiles): string => `${KEYS[file]}=${JSON.stringify(files[file])}`;

/** The curves of TLS 1.3. Node crashes when a client reads a certificate with a key on a curve without a NIST name. */
const CURVES = ['prime256v1', 'secp384r1', 'secp521r1'];

const refused = (message: string): StartFailure => new StartFailure(EXIT.configuration, message);

/** Faults that time or the lists intend. All others mean that the files do not work together. */
const INTENDED = new Set(['CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID', 'CRL_HAS_EXPIRED', 'CERT_REVOKED']);

/** Rejects with a StartFailure that names each file that cannot be read, or else the first file that cannot be used. */
export async function loadTlsMaterial(files: TlsFiles, nowMs: number, read?: ReadFile): Promise<TlsMaterial> {
  try {
    return await materialOf(files, nowMs, read);
  } catch (cause) {
    if (cause instanceof StartFailure) throw cause;
    throw refused(
      `${settingOf(files, 'cert')}, ${settingOf(files, 'clientCa')}: they cannot be used (${messageOf(cause)})`,
    );
  }
}

async function materialOf(files: TlsFiles, nowMs: number, read = readOperatorFile): Promise<TlsMaterial> {
  const [[certs, own], keys, [cas, authorities], crl] = await allStarted([
    certificatesIn(files, 'cert', read),
    pemBlocks(files, 'key', read, /./, 'a private key'),
    certificatesIn(files, 'clientCa', read),
    // Node uses only the first list in a string, so each list is a string of its own.
    files.clientCrl === undefined ? undefined : pemBlocks(files, 'clientCrl', read, /^X509 CRL$/, 'a revocation list'),
  ]);
  const [cert, key, ca] = [certs.join(''), keys.join(''), cas.join('')];
  const context: SecureContextOptions = { cert, key, ca, ...(crl && { crl }) };
  usable(files, 'cert', () => createSecureContext({ cert }));
  for (const one of own) {
    const { namedCurve = 'prime256v1' } = usable(files, 'cert', () => one.publicKey.asymmetricKeyDetails) ?? {};
    if (!CURVES.includes(namedCurve))
      throw refused(
        `${settingOf(files, 'cert')}: ${nameOf(one)} has a key on the curve ${namedCurve}: ` +
          `expected ${CURVES.join(', ')}`,
      );
  }
  const privateKey = usable(files, 'key', () => createPrivateKey(key));
  if (own[0]?.checkPrivateKey(privateKey) !== true)
    throw refused(`${settingOf(files, 'cert')}, ${settingOf(files, 'key')}: the key belongs to another certificate`);
  usable(files, 'key', () => createSecureContext({ cert, key }));
  // OpenSSL checks the strength of keys in certificates of its own at this time, and of authorities in handshakes.
  for (const one of cas) usable(files, 'clientCa', () => createSecureContext({ cert: one }));
  usable(files, crl === undefined ? 'clientCa' : 'clientCrl', () => createSecureContext(context));
  const later = own.find(({ validFromDate }) => validFromDate.getTime() > nowMs);
  const from = later?.validFromDate.toISOString();
  if (later !== undefined)
    throw refused(`${settingOf(files, 'cert')}: the certificate of ${nameOf(later)} is valid only from ${from} on`);
  const lists = usable(files, 'clientCrl', () => (crl ?? []).map((pem) => readRevocationList(pem, authorities)));
  const fault = await serverFault(context);
  if (fault !== undefined)
    throw refused(`${settingOf(files, 'cert')}: a client would refuse the certificate (${fault})`);
  const trust = usable(files, 'clientCa', () => new ClientTrust(context, authorities, lists));
  const faults: string[] = [];
  for (const authority of authorities) {
    const code = await trust.authorityFault(authority, nowMs).catch(messageOf);
    if (code === undefined) continue;
    faults.push(faultText(files, authority, code, authorities));
    if (!INTENDED.has(code)) throw refused(faults.at(-1) ?? '');
  }
  const noneLeft = faults.length === authorities.length ? faults.join('\n') : undefined;
  const ends = { cert: earliest(own), client_ca: earliest(authorities), crl: listExpiryMs(lists, nowMs) };
  return {
    context,
    trust,
    warnings: noneLeft === undefined ? [...faults, ...sharedNames(files, authorities)] : [],
    expired: ends.cert < nowMs ? `${settingOf(files, 'cert')}: it has expired` : noneLeft,
    expiry: Object.entries(ends).flatMap(([file, atMs]) => (Number.isFinite(atMs) ? { file, atMs } : [])),
  };
}

/** When the first of the lists expires. Of those of one authority, the latest is decisive. */
function listExpiryMs(lists: readonly RevocationList[], nowMs: number): number {
  const needed = lists.filter(({ authority }) => nowMs < authority.validToDate.getTime());
  const byKey = Map.groupBy(needed, ({ authority }) => keyText(authority));
  return Math.min(...[...byKey.values()].map((own) => Math.max(...own.map(({ nextUpdateMs }) => nextUpdateMs))));
}

const keyText = ({ publicKey }: X509Certificate): string => String(publicKey.export({ type: 'spki', format: 'pem' }));

const earliest = (list: readonly X509Certificate[]) => Math.min(...list.map((one) => Number(one.validToDate)));

/** Returns the matching blocks of a PEM file, also if they are joined without a line break. */
async function pemBlocks(files: TlsFiles, file: keyof TlsFiles, read: ReadFile, label: RegExp, what: string) {
  const bytes = await read(files[file] ?? '').catch((cause: unknown) => {
    throw refused(`${settingOf(files, file)}: expected a readable PEM file (${errno(cause)})`);
  });
  const text = bytes.toString('utf8').replaceAll(/^[ \t]+|[ \t\r]+$/gm, '');
  const blocks = [...text.matchAll(/-----BEGIN ([^-\n]+)-----(?:(?!-----)[^])*-----END \1-----/g)];
  // A marker that is damaged has no partner, or fewer hyphens than five.
  if ((text.match(/-(?:BEGIN|END)\b/g) ?? []).length !== 2 * blocks.length)
    throw refused(`${settingOf(files, file)}: a part of it is cut off: each BEGIN line needs its END line`);
  const matches = blocks.flatMap(([block, name = '']) => (label.test(name) ? [`${block}\n`] : []));
  if (matches.length === 0) throw refused(`${settingOf(files, file)}: expected a PEM file with ${what}`);
  return matches;
}

/** Roots are first: OpenSSL tries one authority of a name and key, and a cross-signed one may lack its issuer. */
async function certificatesIn(files: TlsFiles, file: 'cert' | 'clientCa', read: ReadFile) {
  const blocks = await pemBlocks(files, file, read, /^(?:TRUSTED |X509 )?CERTIFICATE$/, 'a certificate');
  const pairs = blocks.map((block) => [block, usable(files, file, () => new X509Certificate(block))] as const);
  const rank = ([, one]: (typeof pairs)[number]): number => Number(file === 'clientCa' && !one.checkIssued(one));
  const sorted = pairs.toSorted((one, other) => rank(one) - rank(other));
  return [sorted.map(([block]) => block), sorted.map(([, one]) => one)] as const;
}

function usable<T>(files: TlsFiles, file: keyof TlsFiles, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw refused(`${settingOf(files, file)}: it cannot be used (${messageOf(cause)})`);
  }
}

/** Describes OpenSSL's reason to refuse the certificates that an authority signs, which is one of `all`. */
function faultText(files: TlsFiles, authority: X509Certificate, code: string, all: readonly X509Certificate[]): string {
  const ofList = code.includes('CRL');
  const refusal = `OpenSSL refuses every producer of ${nameOf(authority)} (${code})`;
  const text = `${settingOf(files, ofList ? 'clientCrl' : 'clientCa')}: ${refusal}`;
  if (code.startsWith('UNABLE_TO_GET_ISSUER_CERT'))
    return `${text}: add its root (the issuer ${quoted(topOf(authority, all).issuer)} is missing)`;
  const advice = ofList ? 'list needs an authorityKeyIdentifier' : 'authority needs a subjectKeyIdentifier';
  const isShared = all.some(({ subject, raw }) => subject === authority.subject && raw !== authority.raw);
  return (
    `${text}${ofList ? ': every authority needs a current revocation list' : ''}` +
    (isShared && !INTENDED.has(code) ? `; another authority has this name, so each ${advice}` : '')
  );
}

/** Returns the last authority that is known on the way to the root. */
function topOf(authority: X509Certificate, all: readonly X509Certificate[]): X509Certificate {
  const others = all.filter((one) => one !== authority);
  const issuer = others.find((one) => authority.checkIssued(one));
  return issuer === undefined ? authority : topOf(issuer, others);
}

export function tlsReloadable(files: TlsFiles, clock: Clock): Promise<Reloadable<TlsMaterial>> {
  const paths = Object.keys(KEYS).flatMap((file) => files[file as keyof TlsFiles] ?? []);
  return reloadable(paths, async (read, lastGood) => {
    const material = await loadTlsMaterial(files, clock.epochMs(), read);
    // At startup, expired files are accepted, because the process has no better ones.
    if (lastGood !== undefined && material.expired !== undefined) throw refused(material.expired);
    return material;
  });
}

/** Returns a warning for each name of two authorities whose keys differ, because the name may be all that is known. */
function sharedNames(files: TlsFiles, authorities: readonly X509Certificate[]): string[] {
  const shared = [...Map.groupBy(authorities, ({ subject }) => subject)].filter(
    ([, same]) => new Set(same.map(keyText)).size > 1,
  );
  return shared.map(
    ([subject]) =>
      `${settingOf(files, 'clientCa')}: two authorities are named ${quoted(subject)}: ` +
      'producers of the second one are refused if their certificates have no authorityKeyIdentifier',
  );
}
