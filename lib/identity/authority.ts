// The verdict on a request, from what its connection already knows.
//
// The audience of a trusted producer comes from its certificate, from an operator's grant or from a token, which is
// asked of the others alone; where tokens are required, from a token only.
//
// Invariant: a request is judged by the trust material in use now. When that changes, verdicts are dropped, and a
// connection that the new material does not keep is closed after the answers that it is owed.
import type { Connection } from '../http/connection.ts';
import type { Clock } from '../process/clock.ts';
import type { ClientTrust } from './client-trust.ts';
import { audienceMissing, audienceUri, clientIdentity, type Verdict } from './producer-identity.ts';
import type { TokenVerifier } from './token-verifier.ts';

/** What is kept with each connection. */
export interface ClientContext {
  /** The material that OpenSSL judged the handshake by, or later material that keeps the connection. */
  trust: ClientTrust;
  /** Undefined: to be judged. `byToken`: the verdict is on this token, or on none. */
  judged: { readonly byToken: boolean; readonly token: string | undefined; readonly verdict: Verdict } | undefined;
}

export interface AuthorityOptions {
  readonly clock: Clock;
  readonly audience: string;
  readonly trust: ClientTrust;
  /** Undefined: no token counts. */
  readonly verifier?: TokenVerifier | undefined;
  /** Every producer must bring a token. */
  readonly tokenRequired?: boolean;
  /** Whether an operator grants the audience to this producer. `forget` is to be called when that changes. */
  readonly grants?: (producer: string) => boolean;
}

export class Authority {
  readonly #options: AuthorityOptions;
  #trust: ClientTrust;
  /** Grows whenever verdicts are dropped. */
  #generation = 0;

  constructor(options: AuthorityOptions) {
    this.#options = options;
    this.#trust = options.trust;
  }

  /** The context of a connection that was just accepted. */
  readonly context = (): ClientContext => ({ trust: this.#trust, judged: undefined });

  /**
   * The verdict on a request with this Authorization field: a value where the connection (and this token on it) was
   * judged before, else perhaps a promise.
   */
  judge(connection: Connection<ClientContext>, authorization: string | undefined): Verdict | Promise<Verdict> {
    const now = this.#options.clock.epochMs();
    const { judged } = connection.context;
    if (judged !== undefined && now < judged.verdict.untilMs)
      if (!judged.byToken || judged.token === authorization) return judged.verdict;
    return this.#judgeAnew(connection, authorization, now);
  }

  /** Takes new trust material into use. Closes the connections that it does not keep, and returns them. */
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

  /** Forgets verdicts: token keys or grants have changed. */
  forget(connections: Iterable<Connection<ClientContext>>): void {
    this.#generation += 1;
    for (const { context } of connections) context.judged = undefined;
  }

  #judgeAnew(
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
    // What was found out under trust, keys or grants that have changed since is not kept.
    return verifier
      .verify(authorization, identity, now)
      .then((verdict) => (generation === this.#generation ? keep(verdict, true) : verdict));
  }
}
