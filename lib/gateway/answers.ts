// The bodies that the gateway answers with.
import { problem, type Refusal } from '../ingest/errors.ts';
import type { RequestDefect } from '../http/request.ts';
import type { Answer } from '../http/respond.ts';
import type { Verdict } from '../identity/producer-identity.ts';

/** `refusal`: which row of the catalogue it is made from; it counts as that. */
export interface GatewayAnswer extends Answer {
  readonly refusal?: Refusal;
}

export const JSON_TYPE = 'application/json';

/** Why a connection has no room among the others of its producer. */
export const CONNECTIONS_SHORT = 'all connections are in use, and this producer holds its share of them';

/** The answers to requests that are readable but ambiguous: another reader could take them for something else. */
export const DEFECTS: Readonly<Record<RequestDefect, GatewayAnswer>> = {
  host: problem('invalidEvent', 'expected exactly one well-formed Host field'),
  transferCoding: problem('invalidEvent', 'expected no Transfer-Encoding but chunked'),
  repeatedField: problem('invalidEvent', 'expected one Content-Type and one Authorization field at most'),
  version: problem('invalidEvent', 'expected HTTP/1.1 or HTTP/1.0'),
};

/** How the client may identify itself: the value of WWW-Authenticate. `authorization` is what it sent. */
export type Challenge = (authorization: string | undefined) => string;

/**
 * The challenges of a gateway. Where tokens are required they are RFC 6750's: `error` only where a token came. Else the
 * scheme is `TLS-Client-Certificate`, which is no registered one: HTTP has no name for what TLS does.
 */
export function challenges(audience: string, requiresTokens: boolean): Challenge {
  const realm = `realm="${audience.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
  if (!requiresTokens) return () => `TLS-Client-Certificate ${realm}`;
  return (authorization) => `Bearer ${realm}${authorization === undefined ? '' : ', error="invalid_token"'}`;
}

/** The answer to a client that is not an accepted producer. */
export function refusalOf(
  verdict: Exclude<Verdict, { readonly kind: 'producer' }>,
  challenge: Challenge,
  authorization: string | undefined,
): GatewayAnswer {
  if (verdict.kind === 'unknown') return problem('internal', verdict.detail);
  if (verdict.kind === 'audienceMissing') return problem(verdict.kind, verdict.detail);
  return problem(verdict.kind, verdict.detail, { headers: ['WWW-Authenticate', challenge(authorization)] });
}
