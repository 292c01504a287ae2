// The authorities and revocation lists against which client certificates are checked.
//
// OpenSSL checks a certificate only in the handshake. Later, certificates and lists expire and files are replaced, and
// a resumed session repeats its first verdict. `untilMs` covers these changes.
//
// Invariant: it fails closed. Closing a connection without need costs its client only another handshake.
import type { X509Certificate } from 'node:crypto';

/**
 * A revocation list. It applies to all certificates of its authority's key, because a renewed authority keeps the key.
 * `serials` are uppercase hexadecimal, the format that Node uses.
 */
export interface Revocations {
  readonly authority: X509Certificate;
  readonly serials: ReadonlySet<string>;
  /** Infinity if the list never expires. */
  readonly nextUpdateMs: number;
}

const CHAIN_MAX = 8;
const PAIRS_MAX = 100_000;

export class ClientTrust {
  readonly authorities: readonly X509Certificate[];
  readonly #fingerprints: ReadonlySet<string>;
  readonly #lists: readonly Revocations[];

  /** If there are revocation lists, every authority in a chain must have one, as OpenSSL requires. */
  constructor(authorities: readonly X509Certificate[], lists: readonly Revocations[]) {
    this.authorities = authorities;
    this.#fingerprints = new Set(authorities.map(({ fingerprint256 }) => fingerprint256));
    this.#lists = lists;
  }

  /**
   * Returns the Unix time until which a certificate is trusted that OpenSSL accepted with the material `earlier`. A
   * time that has passed means that it is not trusted now.
   *
   * The material may have been replaced since. All authorities that can have been in the chain must still be here,
   * byte for byte, because OpenSSL does not report the chain.
   */
  untilMs(leaf: X509Certificate, earlier: ClientTrust, nowMs: number): number {
    return this === earlier || this.#hasChains(leaf, earlier, nowMs) ? this.#chainUntilMs(leaf, nowMs, CHAIN_MAX) : 0;
  }

  /** When the first of the lists expires, of those that authorities that have not expired need. */
  listExpiryMs(nowMs: number): number {
    const needed = this.authorities.filter((one) => isCurrent(one, nowMs)).map((one) => this.#listsOf(one));
    return Math.min(...needed.filter(({ length }) => length > 0).map(latest));
  }

  /**
   * Node does not expose the intermediates that a client sends. A certificate whose issuer is not in the files is
   * therefore trusted until it expires, or not at all if there are lists, because every intermediate then needs one.
   */
  #chainUntilMs(certificate: X509Certificate, nowMs: number, depth: number): number {
    const endMs = isCurrent(certificate, nowMs) && depth > 0 ? certificate.validToDate.getTime() : 0;
    if (endMs === 0 || this.#isRoot(certificate)) return endMs;
    const issuers = this.#issuersOf(certificate);
    if (issuers.length === 0 && this.#lists.length === 0) return endMs;
    const chains = issuers.map((issuer) =>
      Math.min(this.#listUntilMs(certificate, issuer), this.#chainUntilMs(issuer, nowMs, depth - 1)),
    );
    return Math.min(endMs, Math.max(0, ...chains));
  }

  #listUntilMs({ serialNumber }: X509Certificate, issuer: X509Certificate): number {
    if (this.#lists.length === 0) return Number.POSITIVE_INFINITY;
    const lists = this.#listsOf(issuer);
    return lists.some(({ serials }) => serials.has(serialNumber)) ? 0 : latest(lists);
  }

  #listsOf({ publicKey }: X509Certificate): Revocations[] {
    return this.#lists.filter(({ authority }) => authority.publicKey.equals(publicKey));
  }

  #hasChains(leaf: X509Certificate, earlier: ClientTrust, nowMs: number): boolean {
    const chains = new Set([leaf]);
    // A Set also visits the members that are added during the iteration.
    for (const one of chains) for (const issuer of earlier.#issuersOf(one)) chains.add(issuer);
    const members = [...chains];
    if (!members.some((one) => earlier.#isRoot(one)))
      return (
        this.#fingerprints.size === earlier.#fingerprints.size && earlier.authorities.every((one) => this.#has(one))
      );
    const needed = members.filter((one) => isCurrent(one, nowMs) && (one !== leaf || earlier.#isRoot(leaf)));
    return needed.every((one) => this.#has(one));
  }

  #has({ fingerprint256 }: X509Certificate): boolean {
    return this.#fingerprints.has(fingerprint256);
  }

  #isRoot(certificate: X509Certificate): boolean {
    return this.#has(certificate) && certificate.checkIssued(certificate);
  }

  #issuersOf(certificate: X509Certificate): X509Certificate[] {
    return this.authorities.filter((one) => isIssuedBy(certificate, one));
  }
}

const isCurrent = ({ validFromDate, validToDate }: X509Certificate, nowMs: number): boolean =>
  validFromDate.getTime() <= nowMs && nowMs < validToDate.getTime();

const latest = (lists: readonly Revocations[]): number => Math.max(0, ...lists.map(({ nextUpdateMs }) => nextUpdateMs));

// Fact: verifying a signature takes 0.1 ms. Choice: remember the results, also for the next material. Effect: a reload
// with 10,000 open connections does not hold the event loop for a second.
const verified = new Map<string, boolean>();

/** False for an authority that issued itself, because its chain ends there. */
function isIssuedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
  if (certificate.fingerprint256 === issuer.fingerprint256) return false;
  const pair = certificate.fingerprint256 + issuer.fingerprint256;
  const known = verified.get(pair);
  if (known !== undefined) return known;
  if (verified.size >= PAIRS_MAX) verified.clear();
  const isVerified = certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
  verified.set(pair, isVerified);
  return isVerified;
}
