// The verdict on a request, from what its connection already knows.
//
// Invariant: a request is judged by the trust material in use now. Verdicts are dropped when that changes, and open
// connections whose certificate lost its trust are closed.
import type { Connection } from '../http/connection.ts';
import type { HttpRequest } from '../http/request.ts';
import type { ClientTrust } from './client-trust.ts';
import { audienceUri, certificateVerdict, clientIdentity, type Verdict } from './producer-identity.ts';
import type { TokenVerifier } from './token-verifier.ts';

/** What is kept for each connection. Without tokens `token` stays undefined. */
export interface KnownProducer {
  readonly token: string | undefined;
  readonly verdict: Verdict;
}

export class Authority {
  readonly #wantedUri: string;
  readonly #verifier: TokenVerifier | undefined;
  #trust: ClientTrust;
  /** Grows whenever verdicts are dropped. */
  #generation = 0;

  constructor(audience: string, trust: ClientTrust, verifier: TokenVerifier | undefined) {
    this.#wantedUri = audienceUri(audience);
    this.#trust = trust;
    this.#verifier = verifier;
  }

  /** The verdict: a value where the connection (and this token on it) was judged before, else perhaps a promise. */
  judge(connection: Connection<KnownProducer>, request: HttpRequest): Verdict | Promise<Verdict> {
    const now = Date.now();
    const known = connection.attachment;
    if (known !== undefined && now < known.verdict.untilMs && known.token === this.#tokenOf(request)) {
      return known.verdict;
    }
    return this.#judgeAnew(connection, request, now);
  }

  /** Judges all connections by new trust material; the ones that do not hold are closed. */
  replaceTrust(trust: ClientTrust, connections: Iterable<Connection<KnownProducer>>): number {
    this.#trust = trust;
    this.#generation += 1;
    const now = Date.now();
    let closed = 0;
    for (const connection of connections) {
      connection.attach(undefined);
      const client = connection.clientCertificate;
      if (client === undefined || client.fault !== undefined) continue;
      if (trust.judge(client.certificate, connection.handshakeCounts, now).trusted) continue;
      connection.destroy();
      closed += 1;
    }
    return closed;
  }

  /** Forgets verdicts, e.g. because token keys changed. */
  forget(connections: Iterable<Connection<KnownProducer>>): void {
    this.#generation += 1;
    for (const connection of connections) connection.attach(undefined);
  }

  #tokenOf(request: HttpRequest): string | undefined {
    return this.#verifier === undefined ? undefined : request.authorization;
  }

  #judgeAnew(connection: Connection<KnownProducer>, request: HttpRequest, now: number): Verdict | Promise<Verdict> {
    const identity = clientIdentity(connection.clientCertificate, this.#trust, connection.handshakeCounts, now);
    if ('kind' in identity) return this.#keep(connection, this.#tokenOf(request), identity);
    if (this.#verifier === undefined) {
      return this.#keep(connection, undefined, certificateVerdict(identity, this.#wantedUri));
    }
    const token = this.#tokenOf(request);
    const generation = this.#generation;
    return this.#verifier.verify(token, identity, now).then((verdict) => {
      // What was found out under trust or keys that have changed since is not kept.
      return generation === this.#generation ? this.#keep(connection, token, verdict) : verdict;
    });
  }

  #keep(connection: Connection<KnownProducer>, token: string | undefined, verdict: Verdict): Verdict {
    connection.attach({ token, verdict });
    return verdict;
  }
}
