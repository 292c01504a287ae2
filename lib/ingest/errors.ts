// The error catalog: status, code, retryability and title of every refusal.
//
// Invariant: a test keeps the catalog equal to the tables in openapi/events.yaml and on the producers' page, and to
// the label values of `ingest_errors_total`. `code`, `status` and `retryable` are contractual (openapi/rules.md, 5),
// and `title` is stable. The caller adds `detail`, which never contains the text of an internal failure.
/** `retryAfterS` is the default of the Retry-After header (RFC 9110, section 10.2.3). */
interface CatalogueEntry<Code extends string = string> {
  readonly code: Code;
  readonly status: number;
  readonly retryable: boolean;
  readonly title: string;
  readonly when: string;
  readonly retryAfterS?: number;
}

export type Refusal = keyof typeof CATALOGUE;
export type ErrorCode = (typeof CATALOGUE)[Refusal]['code'];

const row = <const Code extends string>(
  status: number,
  code: Code,
  retryable: boolean,
  title: string,
  when: string,
  retryAfterS?: number,
): CatalogueEntry<Code> =>
  Object.freeze({ code, status, retryable, title, when, ...(retryAfterS === undefined ? {} : { retryAfterS }) });

export const CATALOGUE = Object.freeze({
  invalidEvent: row(
    400,
    'INVALID_EVENT',
    false,
    'Invalid event',
    'not HTTP, not JSON, or the envelope failed its schema',
  ),
  invalidCompression: row(
    400,
    'INVALID_COMPRESSION',
    false,
    'Invalid compression',
    'the body is no whole stream of the coding that its `Content-Encoding` names',
  ),
  unauthenticated: row(
    401,
    'UNAUTHORIZED_PRODUCER',
    false,
    'Producer not authenticated',
    'no client certificate, or one that is expired, revoked or from an unknown CA; ' +
      'or no valid token where tokens are required',
  ),
  audienceMissing: row(
    403,
    'UNAUTHORIZED_PRODUCER',
    false,
    'Audience not accepted',
    'a good identity without the audience',
  ),
  producerDisabled: row(
    403,
    'PRODUCER_DISABLED',
    false,
    'Producer disabled',
    'the producers file disables this producer; `detail` says why',
  ),
  typeNotAllowed: row(
    403,
    'TYPE_NOT_ALLOWED',
    false,
    'Type not allowed',
    'the producers file does not allow this producer events of this type',
  ),
  eventNotFound: row(404, 'EVENT_NOT_FOUND', false, 'Event not found', "an unknown id, or another producer's"),
  routeNotFound: row(404, 'ROUTE_NOT_FOUND', false, 'Route not found', 'an unknown path'),
  methodNotAllowed: row(
    405,
    'METHOD_NOT_ALLOWED',
    false,
    'Method not allowed',
    'a known path with another method; `Allow` names the right ones',
  ),
  requestTimeout: row(408, 'REQUEST_TIMEOUT', true, 'Request timeout', 'headers or body did not arrive in time'),
  eventIdConflict: row(409, 'EVENT_ID_CONFLICT', false, 'Event id conflict', 'the id belongs to another producer'),
  eventTooLarge: row(413, 'INVALID_EVENT', false, 'Event too large', 'the body is over the limit'),
  unsupportedMediaType: row(
    415,
    'INVALID_EVENT',
    false,
    'Unsupported media type',
    'another content type, or a `Content-Encoding` other than `gzip` or `zstd`',
  ),
  producerRateLimited: row(
    429,
    'PRODUCER_RATE_LIMITED',
    true,
    'Producer rate limited',
    "over this producer's quota; `Retry-After` says when there is room again",
    1,
  ),
  headersTooLarge: row(431, 'HEADERS_TOO_LARGE', false, 'Headers too large', 'too many header bytes or header fields'),
  internal: row(500, 'INTERNAL', true, 'Internal error', 'a fault of the gateway itself'),
  queueUnavailable: row(
    503,
    'QUEUE_UNAVAILABLE',
    true,
    'Queue unavailable',
    'the queue is down, full, read-only, loading, or does not answer in time',
    1,
  ),
  queueOverloaded: row(503, 'QUEUE_OVERLOADED', true, 'Queue overloaded', 'too many events or bytes are in flight', 1),
  lookUpUnavailable: row(
    503,
    'LOOKUP_UNAVAILABLE',
    true,
    'Look-up unavailable',
    'the queue or the warehouse could not be queried, or too many look-ups wait',
    1,
  ),
});

export const ERROR_CODES: readonly ErrorCode[] = [...new Set(Object.values(CATALOGUE).map((entry) => entry.code))];

/** The type is a name and cannot be fetched (RFC 9457, section 3.1.1). */
export const problemType = (code: ErrorCode): string => `urn:ingest:error:${code}`;

export interface EventFault {
  readonly path: string;
  readonly message: string;
}

interface ProblemExtras {
  readonly errors?: readonly EventFault[];
  readonly headers?: readonly string[];
  readonly retryAfterS?: number;
}

/** Returns a refusal as problem details (RFC 9457). `detail` is public. */
export function problem(refusal: Refusal, detail: string, more: ProblemExtras = {}) {
  const { status, code, retryable, title } = CATALOGUE[refusal];
  const { errors, headers, retryAfterS = CATALOGUE[refusal].retryAfterS } = more;
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
    contentType: 'application/problem+json',
    body: JSON.stringify(body),
    ...(all === undefined ? {} : { headers: all }),
  };
}
