// Decides whether a request is accepted, based on the client certificate of its connection and on its token.
//
// A trusted producer has the audience through its certificate, an operator's grant, or a token. If tokens are
// required, only the audience in the token is valid.
//
// Invariant: a request is judged by the current trust material. When the material changes, verdicts are dropped. A
// connection that the new material does not keep is closed once its pending answers have been sent.
import type { Connection } from '../http/connection.ts';
import type { Clock } from '../process/clock.ts';
import { comparableName, isSameProducer } from '../process/producer-name.ts';
import type { ClientTrust } from './client-trust.ts';
import { audienceMissing, audienceUri, clientIdentity, type Verdict } from './producer-identity.ts';
import type { TokenVerifier } from './token-verifier.ts';

export interface ClientContext {
  /** The trust material of the handshake, or later material that keeps the connection. */
  trust: ClientTrust;
  /** The latest verdict. If `byToken` is true, it applies only to requests with the same token (or without one). */
  judged: { readonly byToken: boolean; readonly token: string | undefined; readonly verdict: Verdict } | undefined;
}

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

export class Authority {
  readonly #options: AuthorityOptions;
  #trust: ClientTrust;
  /** Incremented when verdicts are dropped. */
  #generation = 0;

  readonly #spellings = new Map<string, string>();

  constructor(options: AuthorityOptions) {
    this.#options = options;
    this.#trust = options.trust;
  }

  readonly context = (): ClientContext => ({ trust: this.#trust, judged: undefined });

  /**
   * `authorization` is the Authorization field. Returns a promise if the verdict depends on the token and no earlier
   * verdict applies.
   */
  judge(connection: Connection<ClientContext>, authorization: string | undefined): Verdict | Promise<Verdict> {
    const now = this.#options.clock.epochMs();
    const { judged } = connection.context;
    if (judged !== undefined && now < judged.verdict.untilMs)
      if (!judged.byToken || judged.token === authorization) return judged.verdict;
    return this.#newVerdict(connection, authorization, now);
  }

  /** Replaces the trust material. Closes the connections that the new material does not keep, and returns them. */
  replaceTrust(
    trust: ClientTrust,
    connections: Iterable<Connection<ClientContext>>,
  ): readonly Connection<ClientContext>[] {
    this.#trust = trust;
    this.#generation += 1;
    const now = this.#options.clock.epochMs();
    const closed: Connection<ClientContext>[] = [];
    for (const connection of connections) {
      const { context, clientCertificate: client } = connection;
      context.judged = undefined;
      if (client && client.fault === undefined && trust.untilMs(client.certificate, context.trust, now) <= now) {
        connection.retire();
        closed.push(connection);
      } else context.trust = trust;
    }
    return closed;
  }

  /** Drops all verdicts. Call it after token keys or grants have changed. */
  forget(connections: Iterable<Connection<ClientContext>>): void {
    this.#generation += 1;
    for (const { context } of connections) context.judged = undefined;
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

  #newVerdict(
    { context, clientCertificate }: Connection<ClientContext>,
    authorization: string | undefined,
    now: number,
  ): Verdict | Promise<Verdict> {
    const identity = clientIdentity(clientCertificate, this.#trust, context.trust, now);
    const keep = (verdict: Verdict, byToken = false): Verdict => {
      context.judged = { byToken, token: byToken ? authorization : undefined, verdict };
      return verdict;
    };
    if ('kind' in identity) return keep(identity);
    const { audience, verifier, tokenRequired = false, grants } = this.#options;
    const producer = this.#firstSpelling(identity.producer);
    const { untilMs } = identity;
    const hasAudience =
      identity.uris.some((uri) => isSameProducer(uri, audienceUri(audience))) || grants?.(producer) === true;
    if (hasAudience && !tokenRequired) return keep({ kind: 'producer', producer, untilMs });
    if (verifier === undefined) return keep(audienceMissing(producer, audience, untilMs));
    const generation = this.#generation;
    // If trust material, keys or grants change during the verification, the verdict is used once and not kept.
    return verifier
      .verify(authorization, { ...identity, producer }, now)
      .then((verdict) => (generation === this.#generation ? keep(verdict, true) : verdict));
  }
}
