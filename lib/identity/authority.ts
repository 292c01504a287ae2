// Decides if a request is accepted, by the certificate of its connection and by its token.
//
// A trusted producer has the audience by its certificate, by an operator's grant, or by a token. If tokens are
// required, only the token's audience is valid.
//
// Invariant: a request is judged by the trust material in use now. When the material changes, verdicts are dropped. A
// connection that the new material does not keep is closed after its pending answers.
import type { Connection } from '../http/connection.ts';
import type { Clock } from '../process/clock.ts';
import type { ClientTrust } from './client-trust.ts';
import { audienceMissing, audienceUri, clientIdentity, type Verdict } from './producer-identity.ts';
import type { TokenVerifier } from './token-verifier.ts';

export interface ClientContext {
  /** The material of the handshake, or later material that keeps the connection. */
  trust: ClientTrust;
  /** The latest verdict. With `byToken`, it applies to requests with this token (or without one) only. */
  judged: { readonly byToken: boolean; readonly token: string | undefined; readonly verdict: Verdict } | undefined;
}

export interface AuthorityOptions {
  readonly clock: Clock;
  readonly audience: string;
  readonly trust: ClientTrust;
  /** If undefined, tokens are ignored. */
  readonly verifier?: TokenVerifier | undefined;
  readonly tokenRequired?: boolean;
  /** True if an operator grants the audience to this producer. Call `forget` when grants change. */
  readonly grants?: (producer: string) => boolean;
}

export class Authority {
  readonly #options: AuthorityOptions;
  #trust: ClientTrust;
  /** Increases when verdicts are dropped. */
  #generation = 0;

  constructor(options: AuthorityOptions) {
    this.#options = options;
    this.#trust = options.trust;
  }

  readonly context = (): ClientContext => ({ trust: this.#trust, judged: undefined });

  /** Judges a request by its Authorization field. The verdict is a promise only if a new token must be verified. */
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
      if (client !== undefined && client.fault === undefined && !trust.keeps(client.certificate, context.trust, now)) {
        connection.retire();
        closed.push(connection);
      } else context.trust = trust;
    }
    return closed;
  }

  /** Drops verdicts after a change of token keys or grants. */
  forget(connections: Iterable<Connection<ClientContext>>): void {
    this.#generation += 1;
    for (const { context } of connections) context.judged = undefined;
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
    const { producer, untilMs } = identity;
    const hasAudience = identity.uris.includes(audienceUri(audience)) || grants?.(producer) === true;
    if (hasAudience && !tokenRequired) return keep({ kind: 'producer', producer, untilMs });
    if (verifier === undefined) return keep(audienceMissing(producer, audience, untilMs));
    const generation = this.#generation;
    // Trust, keys or grants may change during the verification. Its verdict is then used once and not kept.
    return verifier
      .verify(authorization, identity, now)
      .then((verdict) => (generation === this.#generation ? keep(verdict, true) : verdict));
  }
}
