// Decides whether a request is accepted, based on the client certificate of its connection and on its token.
//
// A trusted producer has the audience through its certificate, an operator's grant, or a token. If tokens are
// required, only the audience in the token is valid.
//
// Invariant: a request is judged by the current trust material. A verdict refers to the material, and to the generation
// of keys and grants, from which it was made, so none outlives them, whoever knows its connection. A connection stays
// if OpenSSL would accept its certificate in a new handshake. Others are closed once their pending answers have been
// sent.
import type { Connection } from '../http/connection.ts';
import type { Clock } from '../process/clock.ts';
import { comparableName, isSameProducer } from '../process/producer-name.ts';
import type { ClientTrust } from './client-trust.ts';
import { audienceMissing, audienceUri, clientIdentity, unauthenticated, type Verdict } from './producer-identity.ts';
import type { TokenVerifier } from './token-verifier.ts';

export interface ClientContext {
  /** The trust material that accepts the certificate, and until when. */
  trust: ClientTrust;
  trustedUntilMs: number;
  latest: LatestVerdict | undefined;
}

/** If `byToken` is true, it applies only to requests with the same token (or without one). */
interface LatestVerdict {
  readonly byToken: boolean;
  readonly token: string | undefined;
  readonly verdict: Verdict;
  readonly trust: ClientTrust;
  readonly generation: number;
}

type Client = Connection<ClientContext>;

export interface AuthorityOptions {
  readonly clock: Clock;
  readonly audience: string;
  readonly trust: ClientTrust;
  /** If undefined, tokens are ignored. */
  readonly verifier?: TokenVerifier | undefined;
  readonly tokenRequired?: boolean;
  /** Returns true if an operator grants the audience to this producer. Call `forget` when grants change. */
  readonly grants?: (producer: string) => boolean;
}

const SPELLINGS_MAX = 10_000;
const NO_LONGER_ACCEPTED =
  'the client certificate is not accepted: it or one of its authorities has expired, or was revoked or replaced';

export class Authority {
  readonly #options: AuthorityOptions;
  #trust: ClientTrust;
  /** True while OpenSSL judges the connections that are older than `#trust`. They keep their trust meanwhile. */
  #isReplacing = false;
  #generation = 0;
  readonly #spellings = new Map<string, string>();

  constructor(options: AuthorityOptions) {
    this.#options = options;
    this.#trust = options.trust;
  }

  readonly context = (): ClientContext => ({
    trust: this.#trust,
    trustedUntilMs: this.#trust.handshakeUntilMs(this.#options.clock.epochMs()),
    latest: undefined,
  });

  /** Returns a promise if no earlier verdict applies, and OpenSSL or the token (`authorization`) must be asked. */
  judge(connection: Client, authorization: string | undefined): Verdict | Promise<Verdict> {
    const now = this.#options.clock.epochMs();
    const { latest } = connection.context;
    if (latest !== undefined && now < latest.verdict.untilMs && this.#isCurrent(latest))
      if (!latest.byToken || latest.token === authorization) return latest.verdict;
    return this.#newVerdict(connection, authorization, now);
  }

  /**
   * Replaces the trust material. Closes each connection that OpenSSL would refuse in a new handshake, without an
   * answer, because its client may have a new certificate. Returns the closed connections.
   *
   * Fact: OpenSSL's verdict takes about 3 ms for each different certificate. Choice: listed certificates are judged
   * first. Effect: a revoked producer's connections close immediately, even if all of 2,000 verdicts take seconds.
   */
  async replaceTrust(trust: ClientTrust, connections: () => readonly Client[]): Promise<readonly Client[]> {
    this.#trust = trust;
    this.#isReplacing = true;
    this.forget();
    const closed: Client[] = [];
    const isListed = ({ clientCertificate: client }: Client) => client && trust.isListed(client.certificate);
    // Connections may arrive meanwhile whose handshakes began before.
    const older = () => connections().filter(({ context }) => context.trust !== trust);
    try {
      for (let remaining = older(); remaining.length > 0; remaining = older())
        for (const one of remaining.toSorted((a, b) => Number(isListed(b) ?? false) - Number(isListed(a) ?? false))) {
          const { clientCertificate: client } = one;
          const isAccepted = client !== undefined && client.fault === undefined;
          const nowMs = this.#options.clock.epochMs();
          const trustedUntilMs = isAccepted ? await trust.untilMs(client.certificate, nowMs) : Infinity;
          if (this.#trust !== trust) return closed;
          Object.assign(one.context, { trust, trustedUntilMs, latest: undefined });
          if (trustedUntilMs > 0) continue;
          one.retire();
          closed.push(one);
        }
      return closed;
    } finally {
      if (this.#trust === trust) this.#isReplacing = false;
    }
  }

  /** Drops all verdicts. Call it after token keys or grants have changed. */
  forget(): void {
    this.#generation += 1;
  }

  #isCurrent({ trust, generation }: LatestVerdict): boolean {
    return generation === this.#generation && (trust === this.#trust || this.#isReplacing);
  }

  /** Returns the spelling of a producer's name that this process saw first, so that it has one set of quotas. */
  #firstSpelling(name: string): string {
    const comparable = comparableName(name);
    const first = this.#spellings.get(comparable);
    if (first !== undefined) return first;
    if (this.#spellings.size >= SPELLINGS_MAX) this.#spellings.clear();
    this.#spellings.set(comparable, name);
    return name;
  }

  #newVerdict(connection: Client, authorization: string | undefined, now: number) {
    const { context, clientCertificate: client } = connection;
    // If trust material, keys or grants change meanwhile, the verdict is used once.
    const generation = this.#generation;
    const keep = (verdict: Verdict, byToken = false): Verdict => {
      const token = byToken ? authorization : undefined;
      context.latest = { byToken, token, verdict, trust: context.trust, generation };
      return verdict;
    };
    if (client === undefined) return keep(unauthenticated('a client certificate is required'));
    const { certificate, fault } = client;
    if (fault !== undefined) return keep(unauthenticated(`the client certificate is not accepted (${fault})`));
    const decide = (untilMs: number): Verdict | Promise<Verdict> => {
      // The client may have a new certificate, for which it needs a new connection.
      if (untilMs <= now) connection.retire();
      if (untilMs <= now) return keep(unauthenticated(NO_LONGER_ACCEPTED));
      const identity = clientIdentity(certificate, untilMs);
      if ('kind' in identity) return keep(identity);
      const { audience, verifier, tokenRequired = false, grants } = this.#options;
      const producer = this.#firstSpelling(identity.producer);
      const isInCertificate = identity.uris.some((uri) => isSameProducer(uri, audienceUri(audience)));
      if (!tokenRequired && (isInCertificate || grants?.(producer) === true))
        return keep({ kind: 'producer', producer, untilMs });
      if (verifier === undefined) return keep(audienceMissing(producer, audience, untilMs));
      return verifier.verify(authorization, { ...identity, producer }, now).then((verdict) => keep(verdict, true));
    };
    const untilMs = Math.min(context.trustedUntilMs, certificate.validToDate.getTime());
    const trust = this.#trust;
    if ((context.trust === trust || this.#isReplacing) && now < untilMs) return decide(untilMs);
    return trust.untilMs(certificate, now).then((trustedUntilMs) => {
      Object.assign(context, { trust, trustedUntilMs });
      return decide(trustedUntilMs);
    });
  }
}
