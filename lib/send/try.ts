// The result of sending an event once (openapi/rules.md, 5).
import type { GatewayAnswer } from './answer-reader.ts';

/**
 * - `accepted`: the gateway has the event. `duplicate` is true if it already had an event with this id, and `differs`
 *   if that event has another body.
 * - `refused`: the answer does not allow another try.
 * - `retry`: the body contains `retryable: true`, or the gateway did not answer (code NO_ANSWER; status 0 if there
 *   was no answer at all). The id makes another try safe.
 * - `untrusted`: the server's certificate was not accepted. Nothing was sent, and another try would fail too.
 *
 * `requestId` is the answer's X-Request-Id, which is also in the gateway's log. `misplaced`: the answer belongs to
 * another request, so the connection must end.
 */
export type Try =
  | {
      readonly kind: 'accepted';
      readonly duplicate: boolean;
      readonly differs: boolean;
      readonly requestId: string | undefined;
    }
  | { readonly kind: 'untrusted'; readonly reason: string }
  | ({ readonly kind: 'refused' } & NotAccepted)
  | ({ readonly kind: 'retry'; readonly afterMs: number; readonly misplaced?: boolean } & NotAccepted);

interface NotAccepted {
  readonly code: string;
  readonly status: number;
  readonly answer: unknown;
  readonly requestId: string | undefined;
}

/** The code of a try that the gateway did not answer. */
export const NO_ANSWER = 'NO_ANSWER';

/** The maximum length of the text kept from an answer that is not a gateway's, such as a proxy's page. */
const FOREIGN_ANSWER_LENGTH_MAX = 1_000;

/** Limits Retry-After. Gateways never send more, and a larger value sent by mistake would stop the sender. */
const RETRY_AFTER_MAX_MS = 300_000;

/** The form of the codes in openapi/events.yaml. Such a code is safe to print. */
const CODE = /^[A-Z][A-Z0-9_]{0,63}$/;

/** Matches Node's error codes for an untrusted server certificate (node:tls, "X509 certificate error codes"). */
const TRUST_ERROR =
  /^(CERT_|ERR_TLS_CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|HOSTNAME_MISMATCH|INVALID_(CA|PURPOSE)|PATH_LENGTH_)/;

export function unansweredTry({ message, code }: NodeJS.ErrnoException): Try {
  const error = message || String(code);
  if (TRUST_ERROR.test(code ?? '')) return { kind: 'untrusted', reason: `${error} (${code})` };
  return noAnswer(0, { error }, undefined);
}

const noAnswer = (status: number, answer: object, requestId: string | undefined) =>
  ({ kind: 'retry', code: NO_ANSWER, status, answer, requestId, afterMs: 0 }) as const;

/**
 * Returns the result for an answer to a request. A 202 must contain the event's id, and all other answers must have
 * the request's X-Request-Id.
 */
export function tryOf(
  answer: GatewayAnswer,
  request: { readonly body: Buffer; readonly requestId: string },
  nowMs: number,
): Try {
  const { status, contentType = '', body: text } = answer;
  const requestId = /^[\x21-\x7e]{1,128}$/.exec(answer.requestId ?? '')?.[0];
  const members = /^application\/(problem\+)?json *(;|$)/i.test(contentType) ? objectOf(text) : undefined;
  const foreign = (error: string, misplaced = false): Try => ({
    ...noAnswer(status, { error, body: text.slice(0, FOREIGN_ANSWER_LENGTH_MAX) }, requestId),
    misplaced,
  });
  if (status === 202) {
    const id = members?.['id'];
    if (typeof id !== 'string' || id !== objectOf(request.body.toString('utf8'))?.['id'])
      return foreign('the answer is for another id', typeof id === 'string');
    if (members?.['status'] === 'accepted')
      return {
        kind: 'accepted',
        duplicate: members['duplicate'] === true,
        differs: members['differs'] === true,
        requestId,
      };
  }
  const { code, retryable } = members ?? {};
  if (members === undefined || typeof code !== 'string' || !CODE.test(code) || typeof retryable !== 'boolean')
    return foreign(`status ${status} without an answer of a gateway`);
  if (status !== 202 && requestId !== request.requestId)
    return foreign('the answer is for another request', requestId !== undefined);
  const notAccepted = { code, status, answer: members, requestId };
  if (!retryable) return { kind: 'refused', ...notAccepted };
  return { kind: 'retry', ...notAccepted, afterMs: retryAfterMs(answer.retryAfter, nowMs) };
}

function objectOf(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : undefined;
  } catch {
    return undefined;
  }
}

/** Parses Retry-After, in seconds or as a date (RFC 9110, section 10.2.3). Returns 0 for other values. */
function retryAfterMs(value: string | undefined, nowMs: number): number {
  if (value === undefined) return 0;
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - nowMs;
  return Number.isNaN(ms) ? 0 : Math.min(Math.max(0, ms), RETRY_AFTER_MAX_MS);
}
