// The authorities and revocation lists against which client certificates are checked.
//
// OpenSSL checks signatures, constraints, usages, path lengths and lists, but only during the handshake. This file
// handles changes while a connection is open. `judge` also returns the time at which its verdict expires, because a
// certificate or a list does. `keeps` decides whether a connection may stay open when the material is replaced.
//
// Invariant: both fail closed. Closing a connection without need costs its client only another handshake.
import type { X509Certificate } from 'node:crypto';

/** A revocation list. `serials` are uppercase hexadecimal, the format that Node uses. */
export interface Revocations {
  readonly authority: X509Certificate;
  readonly serials: ReadonlySet<string>;
  readonly nextUpdateMs: number | undefined;
}

export type Distrust = 'expired' | 'revoked' | 'unknown_authority' | 'no_current_revocation_list';

/** `untilMs` is the Unix time at which the verdict expires. */
export type Trust =
  { readonly trusted: true; readonly untilMs: number } | { readonly trusted: false; readonly why: Distrust };

/** A certificate chain, from the leaf to the root. */
type Chain = readonly X509Certificate[];

const NEVER = Number.POSITIVE_INFINITY;
const CHAIN_MAX = 8;
const KEPT_MAX = 100_000;

export class ClientTrust {
  readonly authorities: readonly X509Certificate[];
  readonly #fingerprints: ReadonlySet<string>;
  readonly #revocations = new Map<string, { readonly serials: ReadonlySet<string>; readonly nextUpdateMs: number }>();
  // Fact: verifying a signature takes 0.1 ms. Choice: build the chains of each certificate only once.
  readonly #chains = new Map<string, readonly Chain[]>();

  /** If there are revocation lists, every authority in a chain must have one, as OpenSSL requires. */
  constructor(authorities: readonly X509Certificate[], revocations: readonly Revocations[]) {
    this.authorities = authorities;
    this.#fingerprints = new Set(authorities.map(({ fingerprint256 }) => fingerprint256));
    for (const { authority, serials, nextUpdateMs = NEVER } of revocations) {
      const key = keyOf(authority);
      const known = this.#revocations.get(key) ?? { serials: [], nextUpdateMs };
      this.#revocations.set(key, {
        serials: new Set([...known.serials, ...serials]),
        nextUpdateMs: Math.max(known.nextUpdateMs, nextUpdateMs),
      });
    }
  }

  /** Returns each authority whose certificates are not accepted at this time, and why. */
  unusable(nowMs: number): { readonly authority: X509Certificate; readonly why: Distrust }[] {
    return this.authorities.flatMap((authority) => {
      const verdicts = this.#chainsOf(authority).map((chain) => this.#judgeChain([authority, ...chain], nowMs));
      const [first] = verdicts;
      if (first === undefined || first.trusted || verdicts.some(({ trusted }) => trusted)) return [];
      return [{ authority, why: first.why }];
    });
  }

  /** When the first of the lists expires, of those that authorities that have not expired need. */
  listExpiryMs(nowMs: number): number {
    const current = this.authorities.filter((one) => isCurrent(one, nowMs));
    return Math.min(...current.map((one) => this.#revocations.get(keyOf(one))?.nextUpdateMs ?? NEVER));
  }

  /**
   * Judges a certificate that OpenSSL accepted in a handshake with this material, or that this material keeps.
   *
   * Node does not expose the intermediates that a client sends. If no chain can be built from the configured files,
   * OpenSSL's verdict is therefore valid until the certificate expires. If there are revocation lists, such a
   * certificate is refused, because every intermediate must be in the authorities' file and have a list.
   */
  judge(leaf: X509Certificate, nowMs: number): Trust {
    const chains = this.#chainsOf(leaf);
    if (chains.length === 0) {
      if (!isCurrent(leaf, nowMs)) return { trusted: false, why: 'expired' };
      if (this.#revocations.size > 0) return { trusted: false, why: 'unknown_authority' };
      return { trusted: true, untilMs: leaf.validToDate.getTime() };
    }
    const verdicts = chains.map((chain) => this.#judgeChain(chain, nowMs));
    return verdicts.find(({ trusted }) => trusted) ?? (verdicts[0] as Trust);
  }

  /**
   * True if a connection accepted under `earlier` may stay open: this material contains every authority of its chain,
   * byte for byte, and revokes none of its certificates. If several chains are possible, all must pass, because
   * OpenSSL does not report which one it used.
   */
  keeps(leaf: X509Certificate, earlier: ClientTrust, nowMs: number): boolean {
    const chains = earlier.#chainsOf(leaf).filter((chain) => chain.every((one) => isCurrent(one, nowMs)));
    if (chains.length === 0) return this.#revocations.size === 0 && this.#hasSameAuthorities(earlier);
    return chains.every(
      (chain) =>
        chain.every((one, at) => (at === 0 && chain.length > 1) || this.#fingerprints.has(one.fingerprint256)) &&
        !chain.some((one, at) => this.#isRevoked(one, chain[at + 1] ?? one)),
    );
  }

  #hasSameAuthorities(earlier: ClientTrust): boolean {
    const others = earlier.#fingerprints;
    return others.size === this.#fingerprints.size && [...others].every((one) => this.#fingerprints.has(one));
  }

  #judgeChain(chain: Chain, nowMs: number): Trust {
    let untilMs = NEVER;
    for (const [at, certificate] of chain.entries()) {
      if (!isCurrent(certificate, nowMs)) return { trusted: false, why: 'expired' };
      untilMs = Math.min(untilMs, certificate.validToDate.getTime());
      const issuer = chain[at + 1];
      if (issuer === undefined || this.#revocations.size === 0) continue;
      const list = this.#revocations.get(keyOf(issuer));
      if (this.#isRevoked(certificate, issuer)) return { trusted: false, why: 'revoked' };
      if (list === undefined || nowMs >= list.nextUpdateMs)
        return { trusted: false, why: 'no_current_revocation_list' };
      untilMs = Math.min(untilMs, list.nextUpdateMs);
    }
    return { trusted: true, untilMs };
  }

  #isRevoked({ serialNumber }: X509Certificate, issuer: X509Certificate): boolean {
    return this.#revocations.get(keyOf(issuer))?.serials.has(serialNumber) === true;
  }

  /** Returns all chains from the certificate to a configured root. */
  #chainsOf(leaf: X509Certificate): readonly Chain[] {
    const known = this.#chains.get(leaf.fingerprint256);
    if (known !== undefined) return known;
    const found = [...this.#follow([leaf])];
    if (this.#chains.size >= KEPT_MAX) this.#chains.clear();
    this.#chains.set(leaf.fingerprint256, found);
    return found;
  }

  *#follow(chain: Chain): Generator<Chain> {
    const last = chain.at(-1) as X509Certificate;
    if (last.checkIssued(last) && this.#fingerprints.has(last.fingerprint256)) {
      yield chain;
      return;
    }
    if (chain.length > CHAIN_MAX) return;
    for (const issuer of this.authorities)
      if (isAuthority(issuer) && last.checkIssued(issuer) && !chain.includes(issuer) && last.verify(issuer.publicKey))
        yield* this.#follow([...chain, issuer]);
  }
}

/** OpenSSL accepts a root of version 1, which cannot say that it is an authority. */
const isAuthority = (issuer: X509Certificate): boolean => issuer.ca || issuer.checkIssued(issuer);

const isCurrent = ({ validFromDate, validToDate }: X509Certificate, nowMs: number): boolean =>
  validFromDate.getTime() <= nowMs && nowMs < validToDate.getTime();

/** Identifies an authority by its name and key, which do not change when its certificate is renewed. */
function keyOf(authority: X509Certificate): string {
  return `${authority.publicKey.export({ type: 'spki', format: 'der' }).toString('base64')} ${authority.subject}`;
}
