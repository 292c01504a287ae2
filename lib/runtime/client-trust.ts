// Whether a client certificate is trusted, judged again while its connection is open.
//
// OpenSSL judges a chain once, in the handshake. This judges the same things (signature up to a configured authority,
// validity, revocation) whenever the trust material has changed, for connections that are open and for sessions that
// were resumed. It fails closed: a chain that cannot be followed is not trusted.
import { X509Certificate } from 'node:crypto';

/** A revocation list: which authority's it is (by fingerprint), and the serial numbers (upper-case hex, as node has them). */
export interface Revocations {
  readonly authority: string;
  readonly serials: ReadonlySet<string>;
  readonly nextUpdateMs: number | undefined;
}

export const DISTRUST = ['expired', 'revoked', 'unknown_authority'] as const;
export type Distrust = (typeof DISTRUST)[number];

const CHAIN_MAX = 8;

export class ClientTrust {
  readonly #authorities: readonly X509Certificate[];
  readonly #revoked = new Map<string, ReadonlySet<string>>();
  // A fleet of connections shares few certificates, and each signature costs a tenth of a millisecond.
  readonly #paths = new Map<string, boolean>();

  constructor(authorities: readonly X509Certificate[], revocations: readonly Revocations[]) {
    this.#authorities = authorities;
    for (const list of revocations) {
      this.#revoked.set(list.authority, new Set([...(this.#revoked.get(list.authority) ?? []), ...list.serials]));
    }
  }

  /** Why `leaf` (with the chain that came with it) is not trusted at `nowMs`; undefined when it is. */
  distrust(leaf: X509Certificate, nowMs: number): Distrust | undefined {
    if (nowMs < leaf.validFromDate.getTime() || nowMs > leaf.validToDate.getTime()) return 'expired';
    if (this.#isRevoked(leaf)) return 'revoked';
    return this.#reachesAuthority(leaf) ? undefined : 'unknown_authority';
  }

  #isRevoked(leaf: X509Certificate): boolean {
    if (this.#revoked.size === 0) return false;
    for (let certificate: X509Certificate | undefined = leaf, depth = 0; certificate !== undefined && depth < CHAIN_MAX; depth += 1) {
      for (const authority of this.#authorities) {
        if (!certificate.checkIssued(authority)) continue;
        if (this.#revoked.get(authority.fingerprint256)?.has(certificate.serialNumber) === true) return true;
      }
      certificate = issuerOf(certificate);
    }
    return false;
  }

  #reachesAuthority(leaf: X509Certificate): boolean {
    const known = this.#paths.get(leaf.fingerprint256);
    if (known !== undefined) return known;
    const reaches = this.#follow(leaf);
    if (this.#paths.size > 100_000) this.#paths.clear();
    this.#paths.set(leaf.fingerprint256, reaches);
    return reaches;
  }

  #follow(leaf: X509Certificate): boolean {
    let certificate = leaf;
    for (let depth = 0; depth < CHAIN_MAX; depth += 1) {
      const signed = certificate;
      if (this.#authorities.some((authority) => signed.checkIssued(authority) && signed.verify(authority.publicKey))) return true;
      const issuer = issuerOf(signed);
      if (issuer === undefined || !issuer.ca || !signed.verify(issuer.publicKey)) return false;
      certificate = issuer;
    }
    return false;
  }
}

function issuerOf(certificate: X509Certificate): X509Certificate | undefined {
  const issuer = certificate.issuerCertificate;
  return issuer === undefined || issuer.fingerprint256 === certificate.fingerprint256 ? undefined : issuer;
}
