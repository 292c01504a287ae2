// The checks that all event requests share: the client's identity and its quotas.
import { problem } from '../ingest/errors.ts';
import type { Authority } from '../identity/authority.ts';
import type { Verdict } from '../identity/producer-identity.ts';
import type { GatewayAnswer } from './answers.ts';
import type { Quotas } from './quotas.ts';

export interface ProducerChecks {
  readonly authority: Authority;
  readonly challenge: Challenge;
  /** `undefined` disables quotas. */
  readonly quotas: Quotas | undefined;
}

/** Returns the value of WWW-Authenticate for a client that sent `authorization`. */
export type Challenge = (authorization: string | undefined) => string;

/**
 * If tokens are accepted, the challenge follows RFC 6750, with `error` only if the client sent a token. Otherwise the
 * scheme is `TLS-Client-Certificate`, because HTTP has no registered scheme for client certificates.
 */
export function challenges(audience: string, requiresTokens: boolean): Challenge {
  const realm = `realm="${audience.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
  if (!requiresTokens) return () => `TLS-Client-Certificate ${realm}`;
  return (authorization) => `Bearer ${realm}${authorization === undefined ? '' : ', error="invalid_token"'}`;
}

/** Returns the answer to a client that is not an accepted producer. */
export function refusalOf(
  verdict: Exclude<Verdict, { readonly kind: 'producer' }>,
  challenge: Challenge,
  authorization: string | undefined,
): GatewayAnswer {
  if (verdict.kind === 'unknown') return problem('internal', verdict.detail);
  if (verdict.kind === 'audienceMissing') return problem(verdict.kind, verdict.detail);
  return problem(verdict.kind, verdict.detail, { headers: ['WWW-Authenticate', challenge(authorization)] });
}
