// The verdict on a request, from what its connection already knows.
//
// Invariant: a request is judged by the trust material in use now. Verdicts are dropped when that changes, and open
// connections whose certificate lost its trust are closed.
import type { Connection } from '../http/connection.ts';
import type { HttpRequest } from '../http/request.ts';
import type { ClientTrust } from './client-trust.ts';
import {
  audienceUri,
  certificateVerdict,
  clientIdentity,
  type ClientIdentity,
  type Verdict,
} from './producer-identity.ts';
import type { TokenVerifier } from './token-verifier.ts';

/** What is kept for each connection. Without tokens `token` stays undefined. */
export interface KnownProducer {
  readonly identity: ClientIdentity | undefined;
  token: string | undefined;
  verdict: Verdict | undefined;
}

export class Authority {
  readonly #wantedUri: string;
  readonly #verifier: TokenVerifier | undefined;
  #trust: ClientTrust;

  constructor(audience: string, trust: ClientTrust, verifier: TokenVerifier | undefined) {
    this.#wantedUri = audienceUri(audience);
    this.#trust = trust;
    this.#verifier = verifier;
  }

  /** The verdict, at once where the connection (and this token on it) is known, else as soon as it is found out. */
  judge(connection: Connection<KnownProducer>, request: HttpRequest): Verdict | Promise<Verdict> {
    const now = Date.now();
    const known = connection.owner;
    if (known?.verdict !== undefined && now < known.verdict.untilMs && known.token === this.#tokenOf(request)) {
      return known.verdict;
    }
    return this.#judgeAnew(connection, request, now);
  }

  /** Judges all connections by new trust material; the ones that do not hold are closed. */
  replaceTrust(trust: ClientTrust, connections: Iterable<Connection<KnownProducer>>): number {
    this.#trust = trust;
    const now = Date.now();
    let closed = 0;
    for (const connection of connections) {
      connection.owner = undefined;
      const client = connection.clientCertificate;
      if (client === undefined || client.fault !== undefined) continue;
      if (trust.judge(client.certificate, connection.current, now).trusted) continue;
      connection.socket.destroy();
      closed += 1;
    }
    return closed;
  }

  /** Forgets verdicts, e.g. because token keys changed. */
  forget(connections: Iterable<Connection<KnownProducer>>): void {
    for (const connection of connections) connection.owner = undefined;
  }

  #tokenOf(request: HttpRequest): string | undefined {
    return this.#verifier === undefined ? undefined : request.authorization;
  }

  #judgeAnew(connection: Connection<KnownProducer>, request: HttpRequest, now: number): Verdict | Promise<Verdict> {
    const identity = clientIdentity(connection.clientCertificate, this.#trust, connection.current, now);
    if ('kind' in identity) {
      connection.owner = { identity: undefined, token: this.#tokenOf(request), verdict: identity };
      return identity;
    }
    const known: KnownProducer = { identity, token: undefined, verdict: undefined };
    connection.owner = known;
    if (this.#verifier === undefined) {
      known.verdict = certificateVerdict(identity, this.#wantedUri);
      return known.verdict;
    }
    const token = this.#tokenOf(request);
    return this.#verifier.verify(token, identity, now).then((verdict) => {
      known.token = token;
      known.verdict = verdict;
      return verdict;
    });
  }
}
