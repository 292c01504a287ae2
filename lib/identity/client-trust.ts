// Whether a client certificate is trusted, judged again while its connection is open.
//
// OpenSSL judges a chain once, in the handshake. This judges the same things (signatures up to a configured root,
// validity, revocation by a list that is not overdue, path length, name constraints and usages) whenever the trust
// material has changed, for connections that are open and for sessions that were resumed. It fails closed: a chain that
// cannot be followed is not trusted.
import type { X509Certificate } from 'node:crypto';
import { withinLimits } from './chain-limits.ts';

/** A revocation list: whose it is, and the serial numbers (upper-case hex, as node has them). */
export interface Revocations {
  readonly authority: X509Certificate;
  readonly serials: ReadonlySet<string>;
  readonly nextUpdateMs: number | undefined;
}

export type Distrust =
  'expired' | 'revoked' | 'unknown_authority' | 'no_current_revocation_list' | 'outside_constraints';

/** `untilMs`: Unix time at which something that the verdict rests on ends. */
export type Trust =
  { readonly trusted: true; readonly untilMs: number } | { readonly trusted: false; readonly why: Distrust };

const CHAIN_MAX = 8;
const KEPT_MAX = 100_000;

interface RevocationState {
  readonly serials: Set<string>;
  nextUpdateMs: number;
}

interface Search {
  /** Certificates that may be in the chain in addition to the authorities. */
  readonly hints: readonly X509Certificate[];
  readonly vouched: boolean;
  readonly nowMs: number;
}

export class ClientTrust {
  readonly #authorities: readonly X509Certificate[];
  readonly #revocations = new Map<string, RevocationState>();
  // A fleet of connections shares few certificates, and each signature costs a tenth of a millisecond.
  readonly #trusted = new Map<string, Trust & { readonly trusted: true }>();

  /** As soon as there is one revocation list, every authority of a chain must have one, as OpenSSL requires. */
  constructor(authorities: readonly X509Certificate[], revocations: readonly Revocations[]) {
    this.#authorities = authorities;
    for (const { authority, serials, nextUpdateMs = Number.POSITIVE_INFINITY } of revocations) {
      const key = keyOf(authority);
      const known = this.#revocations.get(key);
      if (known === undefined) {
        this.#revocations.set(key, { serials: new Set(serials), nextUpdateMs });
      } else {
        for (const serial of serials) known.serials.add(serial);
        known.nextUpdateMs = Math.max(known.nextUpdateMs, nextUpdateMs);
      }
    }
  }

  /**
   * The authorities without a revocation list, roots and intermediates: none of what they issued would be trusted.
   * Those that have expired vouch for nothing, and publish no lists.
   */
  withoutList(nowMs: number): X509Certificate[] {
    return this.#authorities.filter(
      (authority) => nowMs < authority.validToDate.getTime() && !this.#revocations.has(keyOf(authority)),
    );
  }

  /**
   * Judges `leaf`. `vouched`: a handshake under this very material found it good, so that intermediates that only the
   * client has count too, and OpenSSL has checked what the authorities allow.
   * Fact: node 24.21 and 26.10 give a server none of the chain that the client sent. Choice: OpenSSL's word for the
   * chain is taken while the material stays, and refused as soon as it has changed. Revocation lists rule that out:
   * every authority must have one, so every intermediate is in the authorities' file.
   */
  judge(leaf: X509Certificate, vouched: boolean, nowMs: number): Trust {
    const key = `${leaf.fingerprint256} ${vouched}`;
    const known = this.#trusted.get(key);
    if (known !== undefined && nowMs < known.untilMs) return known;
    const hints = sentWith(leaf);
    const trust = this.#follow([leaf], { hints, vouched, nowMs }, Number.POSITIVE_INFINITY);
    if (trust.trusted) {
      if (this.#trusted.size >= KEPT_MAX) this.#trusted.clear();
      this.#trusted.set(key, trust);
      return trust;
    }
    const onlyChain = trust.why === 'unknown_authority' && this.#revocations.size === 0;
    return vouched && onlyChain ? { trusted: true, untilMs: leaf.validToDate.getTime() } : trust;
  }

  /**
   * Tries every issuer of the chain's last certificate, up to a configured root. Which of several chains OpenSSL would
   * take cannot be known, so one that is outside the constraints of its authorities counts against the others.
   */
  #follow(chain: readonly X509Certificate[], search: Search, untilMs: number): Trust {
    const { hints, vouched, nowMs } = search;
    const last = chain.at(-1) as X509Certificate;
    if (nowMs < last.validFromDate.getTime() || nowMs >= last.validToDate.getTime())
      return { trusted: false, why: 'expired' };
    const until = Math.min(untilMs, last.validToDate.getTime());
    const isAuthority = this.#authorities.some((authority) => authority.fingerprint256 === last.fingerprint256);
    if (isAuthority && last.checkIssued(last))
      return vouched || withinLimits(chain)
        ? { trusted: true, untilMs: until }
        : { trusted: false, why: 'outside_constraints' };
    let [good, why]: [Trust | undefined, Distrust] = [undefined, 'unknown_authority'];
    if (chain.length > CHAIN_MAX) return { trusted: false, why };
    for (const issuer of [...this.#authorities, ...hints]) {
      if (!issuer.ca || !last.checkIssued(issuer) || chain.includes(issuer) || !last.verify(issuer.publicKey)) continue;
      const revocation = this.#revocationOf(last, issuer, nowMs);
      const trust =
        typeof revocation === 'string'
          ? { trusted: false as const, why: revocation }
          : this.#follow([...chain, issuer], search, Math.min(until, revocation));
      if (!trust.trusted && trust.why === 'outside_constraints') return trust;
      if (trust.trusted) good ??= trust;
      else why = trust.why;
    }
    return good ?? { trusted: false, why };
  }

  /** Until when the issuer's list speaks for the certificate, or what it says against it. */
  #revocationOf(certificate: X509Certificate, issuer: X509Certificate, nowMs: number): number | Distrust {
    if (this.#revocations.size === 0) return Number.POSITIVE_INFINITY;
    const state = this.#revocations.get(keyOf(issuer));
    if (state?.serials.has(certificate.serialNumber) === true) return 'revoked';
    return state === undefined || nowMs >= state.nextUpdateMs ? 'no_current_revocation_list' : state.nextUpdateMs;
  }
}

/** An authority is its name and key: its certificate may be renewed. */
function keyOf(authority: X509Certificate): string {
  return `${authority.publicKey.export({ type: 'spki', format: 'der' }).toString('base64')} ${authority.subject}`;
}

function sentWith(leaf: X509Certificate): X509Certificate[] {
  const sent: X509Certificate[] = [];
  let certificate = leaf.issuerCertificate;
  while (certificate !== undefined && sent.length < CHAIN_MAX) {
    sent.push(certificate);
    certificate = certificate.issuerCertificate;
  }
  return sent;
}
