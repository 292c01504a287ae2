// The checks of a client that all event requests share: its identity and its quotas.
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
