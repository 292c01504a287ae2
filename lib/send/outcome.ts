// The result of sending an event once (openapi/rules.md, 5).
import { messageOf } from '../process/message-of.ts';
import type { GatewayAnswer } from './answer-reader.ts';
import { objectIn } from './journal-format.ts';

/** The event is in the gateway's queue. */
export interface Accepted {
  readonly kind: 'accepted';
  /** True if the gateway already had this id, with another body if `differs`. The gateway keeps the first body. */
  readonly duplicate: boolean;
  readonly differs: boolean;
  /** The answer's X-Request-Id, which is also in the gateway's log. */
  readonly requestId: string | undefined;
}

export interface NotAccepted {
  /** The answer's `code`, or NO_ANSWER if no gateway answered. */
  readonly code: string;
  /** 0 if there was no answer. */
  readonly status: number;
  readonly answer: unknown;
  readonly requestId: string | undefined;
}

/**
 * - `refused`: the answer does not allow another try.
 * - `retry`: the body contains `retryable: true`, or the gateway did not answer. The id makes another try safe.
 *   `misplaced`: the answer belongs to another request, so the connection must end.
 */
export type Try =
  | Accepted
  | ({ readonly kind: 'refused' } & NotAccepted)
  | ({ readonly kind: 'retry'; readonly afterMs: number; readonly misplaced?: boolean } & NotAccepted);

/** The code of a try that the gateway did not answer. */
export const NO_ANSWER = 'NO_ANSWER';

/** The maximum length of the text kept from an answer that is not a gateway's, such as a proxy's page. */
const FOREIGN_ANSWER_LENGTH_MAX = 1_000;

/** Limits Retry-After. Gateways never send more, and a larger value sent by mistake would stop the sender. */
const RETRY_AFTER_MAX_MS = 300_000;

/** The form of the codes in openapi/events.yaml. Such a code is safe to print. */
const CODE = /^[A-Z][A-Z0-9_]{0,63}$/;

const UNTRUSTED = 'the server is not trusted';

/** An error's code, what it means, and what to do (node:tls, "X509 certificate error codes"; TLS alerts). */
const REMEDIES: readonly (readonly [code: RegExp, why: string, remedy: string])[] = [
  [/^ERR_TLS_CERT_ALTNAME_INVALID$/, UNTRUSTED, '"url" must name a host that is in the certificate'],
  [
    /^(CERT_(HAS_EXPIRED|NOT_YET_VALID|REVOKED)|INVALID_PURPOSE)$/,
    UNTRUSTED,
    'its certificate must be replaced, unless the clock of this machine is wrong',
  ],
  [
    /^(CERT_|ERR_TLS_CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|HOSTNAME_MISMATCH|INVALID_CA|PATH_LENGTH_)/,
    UNTRUSTED,
    '"ca" must contain the authority that signed its certificate',
  ],
  [
    /ALERT_.*(CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED|HANDSHAKE_FAILURE|PROTOCOL|UNRECOGNIZED_NAME)/,
    'the server refused the TLS handshake',
    'check "cert" and "key", and the port in "url"',
  ],
  [
    /^ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST|UNSUPPORTED_PROTOCOL)$/,
    'the server does not use TLS',
    'check the port in "url"',
  ],
  [/^(ECONNREFUSED|ENOTFOUND)$/, 'no gateway at this address', 'check "url", if it does not start soon'],
];

export function unansweredTry(cause: NodeJS.ErrnoException & { readonly reason?: string }): Try {
  const { code = '', reason } = cause;
  // OpenSSL's own messages name its source files. `reason` is the readable part.
  const error = reason ?? messageOf(cause);
  const shown = error.includes(code) ? error : `${error} (${code})`;
  const [, why, remedy] = REMEDIES.find(([codes]) => codes.test(code)) ?? [];
  const answer = { error: why === undefined ? error : `${why}: ${shown}; ${remedy}` };
  return { kind: 'retry', code: NO_ANSWER, status: 0, answer, requestId: undefined, afterMs: 0 };
}

/**
 * Returns the result for an answer to a request. A 202 must contain the event's id, and all other answers must have
 * the request's X-Request-Id.
 */
export function tryOf(
  answer: GatewayAnswer,
  request: { readonly body: Buffer; readonly requestId: string },
  { nowMs, isSecure }: { readonly nowMs: number; readonly isSecure: boolean },
): Try {
  const { status, fields, body: text } = answer;
  const requestId = /^[\x21-\x7e]{1,128}$/.exec(fields.get('x-request-id') ?? '')?.[0];
  const isJson = /^application\/(problem\+)?json *(;|$)/i.test(fields.get('content-type') ?? '');
  const members = isJson ? objectIn(text) : undefined;
  const afterMs = retryAfterMs(fields.get('retry-after'), nowMs);
  const foreign = (error: string, misplaced = false): Try => {
    const answer = { error, body: text.slice(0, FOREIGN_ANSWER_LENGTH_MAX) };
    return { kind: 'retry', code: NO_ANSWER, status, answer, requestId, afterMs, misplaced };
  };
  if (status === 202) {
    const id = members?.['id'];
    if (typeof id !== 'string' || id !== objectIn(request.body)?.['id'])
      return foreign('the answer is for another id', typeof id === 'string');
    const [duplicate, differs] = [members?.['duplicate'] === true, members?.['differs'] === true];
    if (members?.['status'] === 'accepted') return { kind: 'accepted', duplicate, differs, requestId };
  }
  const { code, retryable } = members ?? {};
  if (members === undefined || typeof code !== 'string' || !CODE.test(code) || typeof retryable !== 'boolean')
    return foreign(`status ${status} without an answer of a gateway`);
  if (status === 400 && !isSecure && requestId !== request.requestId)
    return foreign(`"url" must begin with https: ${String(members['detail'])}`);
  if (status !== 202 && requestId !== request.requestId)
    return foreign('the answer is for another request', requestId !== undefined);
  const notAccepted = { code, status, answer: members, requestId };
  if (!retryable) return { kind: 'refused', ...notAccepted };
  return { kind: 'retry', ...notAccepted, afterMs };
}

/**
 * Parses Retry-After, in seconds or as a date (RFC 9110, section 10.2.3). Returns 0 for other values, and the longest
 * pause if a proxy has added one.
 */
function retryAfterMs(values = '', nowMs: number): number {
  // The comma in a date is followed by the day and the month.
  const pauses = values.split(/, *(?!\d+[ -][A-Z])/i).map((value) => {
    const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - nowMs;
    return Number.isNaN(ms) ? 0 : ms;
  });
  return Math.min(Math.max(0, ...pauses), RETRY_AFTER_MAX_MS);
}
