// The bodies that the gateway answers with.
import { CATALOGUE, problemType, type Refusal } from '../ingest/errors.ts';
import type { EventFault } from '../ingest/event.ts';
import type { Answer } from '../http/respond.ts';
import type { Verdict } from '../identity/producer-identity.ts';

/** `refusal`: which row of the catalogue it is made from; it counts as that. */
export interface GatewayAnswer extends Answer {
  readonly refusal?: Refusal;
}

export const JSON_TYPE = 'application/json';
export const PROBLEM_TYPE = 'application/problem+json';

/**
 * A refusal as problem details (RFC 9457). `detail` is public: it never holds the text of an internal failure. `headers`
 * are name, value, name, value ….
 */
export function problem(
  refusal: Refusal,
  detail: string,
  errors?: readonly EventFault[],
  headers?: readonly string[],
): GatewayAnswer {
  const { status, code, retryable, title, retryAfterS } = CATALOGUE[refusal];
  const body = {
    type: problemType(code),
    title,
    status,
    detail,
    code,
    retryable,
    ...(errors === undefined ? {} : { errors }),
  };
  const all = retryAfterS === undefined ? headers : ['Retry-After', String(retryAfterS), ...(headers ?? [])];
  return {
    refusal,
    status,
    contentType: PROBLEM_TYPE,
    body: JSON.stringify(body),
    ...(all === undefined ? {} : { headers: all }),
  };
}

export function json(status: number, value: unknown): Answer {
  return { status, contentType: JSON_TYPE, body: JSON.stringify(value) };
}

/** The answer to a client that is no producer. */
export function refusalOf(verdict: Exclude<Verdict, { readonly kind: 'producer' }>): GatewayAnswer {
  return problem(verdict.kind === 'unknown' ? 'internal' : verdict.kind, verdict.detail);
}
