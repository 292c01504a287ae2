// The checks that all event requests share: the client's identity and its quotas.
import { problem } from '../ingest/errors.ts';
import type { Authority } from '../identity/authority.ts';
import type { Verdict } from '../identity/producer-identity.ts';
import type { GatewayAnswer } from './answers.ts';
import type { Quotas } from './quotas.ts';

export interface ProducerChecks {
  readonly authority: Authority;
  /** Returns the answer for a client that is not an accepted producer. `authorization` is its request header. */
  readonly refusal: (verdict: RefusedVerdict, authorization: string | undefined) => GatewayAnswer;
  readonly quotas: Quotas;
}

type RefusedVerdict = Exclude<Verdict, { readonly kind: 'producer' }>;

/**
 * If tokens are accepted, the challenge follows RFC 6750, with `error` only if the client sent a token. Otherwise the
 * scheme is `TLS-Client-Certificate`, because HTTP has no registered scheme for client certificates.
 */
export function refusals(audience: string, acceptsTokens: boolean): ProducerChecks['refusal'] {
  const realm = `realm="${audience.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
  return ({ kind, detail }, authorization) => {
    if (kind === 'unknown') return problem('internal', detail);
    if (kind === 'audienceMissing' || kind === 'tokenKeyUnknown') return problem(kind, detail);
    const error = authorization === undefined ? '' : ', error="invalid_token"';
    const challenge = acceptsTokens ? `Bearer ${realm}${error}` : `TLS-Client-Certificate ${realm}`;
    return problem(kind, detail, { headers: ['WWW-Authenticate', challenge] });
  };
}
