// The error catalog: status, code, retryability and title of every refusal.
//
// Invariant: a test keeps the catalog equal to openapi/events.yaml and to the producers' page, whose tables describe
// when each refusal occurs. `code`, `status` and `retryable` are contractual (openapi/rules.md, 5), and `title` is
// stable. The caller adds `detail`, which never contains the text of an internal failure.

export type Refusal = keyof typeof CATALOGUE;
export type ErrorCode = (typeof CATALOGUE)[Refusal]['code'];

const row = <const Code extends string>(status: number, code: Code, retryable: boolean, title: string) =>
  Object.freeze({ code, status, retryable, title });

export const CATALOGUE = Object.freeze({
  invalidEvent: row(400, 'INVALID_EVENT', false, 'Invalid event'),
  invalidCompression: row(400, 'INVALID_COMPRESSION', false, 'Invalid compression'),
  unauthenticated: row(401, 'UNAUTHORIZED_PRODUCER', false, 'Producer not authenticated'),
  audienceMissing: row(403, 'UNAUTHORIZED_PRODUCER', false, 'Audience not accepted'),
  producerDisabled: row(403, 'PRODUCER_DISABLED', false, 'Producer disabled'),
  typeNotAllowed: row(403, 'TYPE_NOT_ALLOWED', false, 'Type not allowed'),
  eventNotFound: row(404, 'EVENT_NOT_FOUND', false, 'Event not found'),
  routeNotFound: row(404, 'ROUTE_NOT_FOUND', false, 'Route not found'),
  methodNotAllowed: row(405, 'METHOD_NOT_ALLOWED', false, 'Method not allowed'),
  requestTimeout: row(408, 'REQUEST_TIMEOUT', true, 'Request timeout'),
  eventIdConflict: row(409, 'EVENT_ID_CONFLICT', false, 'Event id conflict'),
  eventTooLarge: row(413, 'INVALID_EVENT', false, 'Event too large'),
  unsupportedMediaType: row(415, 'INVALID_EVENT', false, 'Unsupported media type'),
  producerRateLimited: row(429, 'PRODUCER_RATE_LIMITED', true, 'Producer rate limited'),
  headersTooLarge: row(431, 'HEADERS_TOO_LARGE', false, 'Headers too large'),
  internal: row(500, 'INTERNAL', true, 'Internal error'),
  queueUnavailable: row(503, 'QUEUE_UNAVAILABLE', true, 'Queue unavailable'),
  queueOverloaded: row(503, 'QUEUE_OVERLOADED', true, 'Queue overloaded'),
  tokenKeyUnknown: row(503, 'TOKEN_KEY_UNKNOWN', true, 'Token key not known yet'),
  lookUpUnavailable: row(503, 'LOOKUP_UNAVAILABLE', true, 'Look-up unavailable'),
});

export const ERROR_CODES: readonly ErrorCode[] = [...new Set(Object.values(CATALOGUE).map((entry) => entry.code))];

/** The type is a name and cannot be fetched (RFC 9457, section 3.1.1). */
export const problemType = (code: ErrorCode): string => `urn:ingest:error:${code}`;

export interface EventFault {
  readonly path: string;
  readonly message: string;
}

/** Default of the Retry-After header (RFC 9110, section 10.2.3). */
const RETRY_AFTER_S = 1;

/** Returns a refusal as problem details (RFC 9457). `detail` is public. */
export function problem(
  refusal: Refusal,
  detail: string,
  more: { errors?: readonly EventFault[]; headers?: readonly string[]; retryAfterS?: number } = {},
) {
  const { status, code, retryable, title } = CATALOGUE[refusal];
  const { errors, headers, retryAfterS = status === 429 || status === 503 ? RETRY_AFTER_S : undefined } = more;
  const all = retryAfterS === undefined ? headers : ['Retry-After', String(retryAfterS), ...(headers ?? [])];
  return {
    refusal,
    status,
    contentType: 'application/problem+json',
    body: JSON.stringify({ type: problemType(code), title, status, detail, code, retryable, errors }),
    ...(all === undefined ? {} : { headers: all }),
  };
}
