// Asks OpenSSL whether it accepts a client certificate now. OpenSSL checks a certificate only in the handshake. Later,
// certificates and lists expire and files are replaced, and a resumed session repeats its first verdict.
//
// Only OpenSSL knows how it finds the issuer and the list of a certificate, and only a handshake shows its verdict. The
// private keys are not here, so copies (x509.ts) connect in memory to a server that trusts copies.
import { generateKeyPairSync, type KeyObject, type X509Certificate } from 'node:crypto';
import { duplexPair } from 'node:stream';
import * as tls from 'node:tls';
import { errorCode } from '../process/operator-file.ts';
import type { RevocationList } from './revocation-list.ts';
import { certificateCopy, claimsAuthority, leafOf, listCopy, trialKey } from './x509.ts';

/** A session can be resumed for this long (OpenSSL's default). */
const SESSION_MS = 7_200_000;
const VERDICTS_MAX = 10_000;
/** Signs the copies of certificates whose issuer is unknown, and connects for each authority. */
const { privateKey: OTHER_KEY } = generateKeyPairSync('ed25519');

export class ClientTrust {
  readonly #authorities: readonly X509Certificate[];
  readonly #lists: readonly RevocationList[];
  readonly #server: tls.Server;
  /** Times at which a verdict may change. */
  readonly #changesMs: readonly number[];
  readonly #verdicts = new Map<string, { readonly endMs: number; readonly fault: Promise<string | undefined> }>();
  #handshakes: Promise<unknown> = Promise.resolve();

  constructor(
    { cert, key }: tls.SecureContextOptions,
    authorities: readonly X509Certificate[],
    lists: readonly RevocationList[],
  ) {
    this.#authorities = authorities;
    this.#lists = lists;
    const ca = authorities.map((one) => this.#copyOf(one));
    const crl = lists.map(({ der, authority }) => listCopy(der, trialKey(authority)));
    this.#server = tls.createServer({ cert, key, ca, crl, requestCert: true, rejectUnauthorized: false });
    const dates = authorities.flatMap(({ validFromDate, validToDate }) => [validFromDate, validToDate]);
    this.#changesMs = [...dates.map(Number), ...lists.map(({ nextUpdateMs }) => nextUpdateMs)];
  }

  /** Returns until when the verdict of a handshake holds; 0 if the handshake may have resumed an older session. */
  handshakeUntilMs(nowMs: number): number {
    const hasChanged = this.#changesMs.some((atMs) => atMs <= nowMs && nowMs < atMs + SESSION_MS);
    return hasChanged ? 0 : this.#nextChangeMs([], nowMs);
  }

  /** True if a list, of whatever authority, contains the certificate's serial number. */
  isListed({ serialNumber }: X509Certificate): boolean {
    return this.#lists.some(({ serials }) => serials.has(serialNumber));
  }

  /** Resolves with the time until which OpenSSL accepts a certificate, 0 if it does not accept it now. */
  async untilMs(certificate: X509Certificate, nowMs: number): Promise<number> {
    const chain = [certificate, ...sentWith(certificate)];
    const id = chain.map(({ fingerprint256 }) => fingerprint256).join();
    let verdict = this.#verdicts.get(id);
    if (verdict === undefined || nowMs >= verdict.endMs) {
      if (this.#verdicts.size >= VERDICTS_MAX) this.#verdicts.clear();
      verdict = { endMs: this.#nextChangeMs(chain, nowMs), fault: this.#faultOf(certificate).catch(String) };
      this.#verdicts.set(id, verdict);
    }
    return (await verdict.fault) === undefined ? verdict.endMs : 0;
  }

  /** Resolves with OpenSSL's reason to refuse the certificates that an authority signs, if it refuses them now. */
  async authorityFault(authority: X509Certificate, nowMs: number): Promise<string | undefined> {
    if (nowMs >= authority.validToDate.getTime()) return 'CERT_HAS_EXPIRED';
    if (nowMs < authority.validFromDate.getTime()) return 'CERT_NOT_YET_VALID';
    const fault = await this.#handshake(leafOf(authority, OTHER_KEY), OTHER_KEY);
    // A producer's own certificate may be in the file instead of its authority.
    return fault === undefined || claimsAuthority(authority) ? fault : this.#faultOf(authority);
  }

  #nextChangeMs(chain: readonly X509Certificate[], nowMs: number): number {
    const changesMs = [...this.#changesMs, ...chain.map(({ validToDate }) => Number(validToDate))];
    return Math.min(...changesMs.filter((atMs) => atMs > nowMs));
  }

  async #faultOf(leaf: X509Certificate): Promise<string | undefined> {
    const sent = sentWith(leaf);
    const copies = [leaf, ...sent].map((one) => this.#copyOf(one, sent));
    return this.#handshake(copies.join(''), trialKey(leaf));
  }

  #copyOf(certificate: X509Certificate, sent: readonly X509Certificate[] = []): string {
    const issuer = [certificate, ...sent, ...this.#authorities].find(
      (one) => certificate.checkIssued(one) && certificate.verify(one.publicKey),
    );
    return certificateCopy(certificate, issuer === undefined ? OTHER_KEY : trialKey(issuer));
  }

  /** One at a time, because the server does not tell to which client a connection belongs. */
  #handshake(cert: string, privateKey: KeyObject): Promise<string | undefined> {
    const key = privateKey.export({ type: 'pkcs8', format: 'pem' });
    const verdicts = this.#handshakes.then(() => handshake(this.#server, { cert, key }));
    this.#handshakes = verdicts;
    return verdicts.then(({ ofClient }) => ofClient);
  }
}

/** Returns the other certificates that the client sent. A resumed session has none. */
const sentWith = ({ issuerCertificate: one }: X509Certificate): X509Certificate[] =>
  one === undefined ? [] : [one, ...sentWith(one)];

export async function serverFault({ cert, key }: tls.SecureContextOptions): Promise<string | undefined> {
  const { ofServer } = await handshake(tls.createServer({ cert, key }), { ca: cert, allowPartialTrustChain: true });
  return ofServer === 'CERT_HAS_EXPIRED' ? undefined : ofServer;
}

/** Connects in memory. Returns the faults that OpenSSL finds in both certificates. A failed handshake is in both. */
async function handshake(server: tls.Server, options: tls.ConnectionOptions) {
  const [near, far] = duplexPair();
  const { promise: secured, resolve, reject } = Promise.withResolvers<tls.TLSSocket>();
  server.once('secureConnection', resolve).once('tlsClientError', reject);
  const ignored = { rejectUnauthorized: false, checkServerIdentity: () => undefined };
  const socket = tls.connect({ ...options, ...ignored, socket: near });
  // The client may fail first, and then the server waits.
  socket.on('error', reject).once('close', () => reject(new Error('the connection closed')));
  server.emit('connection', far);
  try {
    const accepted = await secured;
    const faultOf = ({ authorized, authorizationError }: tls.TLSSocket): string | undefined =>
      authorized ? undefined : String(authorizationError);
    const both = { ofServer: faultOf(socket), ofClient: faultOf(accepted) };
    accepted.destroy();
    return both;
  } catch (cause) {
    const code = errorCode(cause);
    return { ofServer: code, ofClient: code };
  } finally {
    server.off('secureConnection', resolve).off('tlsClientError', reject);
    socket.destroy();
  }
}
