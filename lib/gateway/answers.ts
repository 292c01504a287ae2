// The bodies that the gateway answers with.
import { CATALOGUE, problemType, type Refusal } from '../ingest/errors.ts';
import type { EventFault } from '../ingest/event.ts';
import type { Answer } from '../http/respond.ts';

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
): Answer {
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
    status,
    contentType: PROBLEM_TYPE,
    body: JSON.stringify(body),
    ...(all === undefined ? {} : { headers: all }),
  };
}

export function json(status: number, value: unknown): Answer {
  return { status, contentType: JSON_TYPE, body: JSON.stringify(value) };
}

/** The acceptance response (specification, "Acceptance response"); `differs`: the first body was another one, and stays. */
export function acceptance(id: string, duplicate: boolean, differs = false): string {
  const known = duplicate ? ',"duplicate":true' : '';
  return `{"id":${JSON.stringify(id)},"status":"accepted"${known}${differs ? ',"differs":true' : ''}}`;
}
