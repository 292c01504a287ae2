// Answers that several handlers share, and the checks behind them.
import { problem, type Refusal } from '../ingest/errors.ts';
import type { RequestDefect } from '../http/request.ts';
import type { Answer } from '../http/respond.ts';
import type { Authority } from '../identity/authority.ts';
import type { Verdict } from '../identity/producer-identity.ts';
import type { Quotas } from './quotas.ts';

/** `refusal`: the row of the error catalogue that it is made from; it counts as that. */
export interface GatewayAnswer extends Answer {
  readonly refusal?: Refusal;
}

/** The result of a handler. `taken`: the handler keeps the exchange and calls its `answer` once. */
export type Answering = GatewayAnswer | 'taken' | Promise<GatewayAnswer | 'taken'>;

/** The checks of a client that event requests share. */
export interface ProducerChecks {
  readonly authority: Authority;
  readonly challenge: Challenge;
  /** `undefined` disables quotas. */
  readonly quotas: Quotas | undefined;
}

export const JSON_TYPE = 'application/json';

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
