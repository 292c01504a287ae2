// Expositions of a gateway in situations that the status page must recognize. test/end-to-end/situations.test.ts makes
// others with real programs. Counters grow with `seconds`, so that a test can poll them like a real process.

export interface Situation {
  /** Events per second. */
  readonly accepted?: number;
  /** Events per second that the consumer group acknowledges. */
  readonly landed?: number;
  /** Requests per second that are refused, by code. */
  readonly refused?: Readonly<Record<string, readonly [status: number, perSecond: number]>>;
  readonly unlanded?: (seconds: number) => number;
  readonly oldestS?: (seconds: number) => number;
  /** Samples by metric, which replace others. `undefined` removes a metric. */
  readonly samples?: Readonly<Record<string, number | ((seconds: number) => number) | undefined>>;
  /** The reason in the answer of `/health/ready`, and the unavailable parts in it. */
  readonly unready?: string;
  readonly reasons?: Readonly<Record<number, string>>;
  readonly program?: 'consumer';
  /** The words of other problems that the page lists. */
  readonly beside?: readonly string[];
  /** Share of the requests that take longer than 200 ms. */
  readonly slow?: number;
}

const GIBIBYTE = 2 ** 30;

export function pageMetrics(seconds: number, situation: Situation = {}): string {
  const { accepted = 2_000, landed = accepted, refused = {}, slow = 0, samples = {} } = situation;
  const { unlanded = () => 3, oldestS = () => 0.002 } = situation;
  // The process reads the queue every two seconds.
  const readS = seconds - (seconds % 2);
  const total = (perSecond: number): number => Math.round(perSecond * seconds);
  const statuses = [[202, accepted] as const, ...Object.values(refused)];
  const requests = statuses.reduce((sum, [, perSecond]) => sum + perSecond, 0);
  const all: Situation['samples'] = {
    ingest_queue_available: 1,
    'ingest_queue_up{partition="0"}': 1,
    ingest_queue_lag_events: unlanded(seconds),
    ingest_process_stall_seconds_count: 0,
    ingest_process_stall_seconds_sum: 0,
    ingest_queue_oldest_unlanded_seconds: oldestS(seconds),
    ingest_queue_report_age_seconds: seconds - readS,
    ingest_queue_acknowledged_events: Math.round(landed * readS),
    ingest_queue_events: 1_728_000,
    ingest_queue_memory_bytes: 1.2 * GIBIBYTE,
    ingest_queue_memory_limit_bytes: 4 * GIBIBYTE,
    'ingest_build_info{version="1.0.0",revision="x",node="v26.1.0"}': 1,
    ingest_accepted_total: total(accepted),
    ...Object.fromEntries(
      statuses.map(([status, perSecond]) => [
        `ingest_http_requests_total{method="POST",route="/events",status="${status}"}`,
        total(perSecond),
      ]),
    ),
    ...Object.fromEntries(
      Object.entries(refused).map(([code, [, perSecond]]) => [`ingest_errors_total{code="${code}"}`, total(perSecond)]),
    ),
    ...Object.fromEntries(
      Object.entries({ '0.001': 0.6 * (1 - slow), '0.2': 1 - slow, '0.5': 1, '+Inf': 1 }).map(([le, share]) => [
        `ingest_http_request_duration_seconds_bucket{le="${le}",route="/events"}`,
        total(requests * share),
      ]),
    ),
    ...{ ingest_queue_consumers: 3, ingest_lookups_available: 1, ingest_queue_replicas_required: 0 },
    ...{ ingest_events_in_flight: 4, ingest_connections: 12 },
    'ingest_tls_certificate_expiry_seconds{file="cert"}': 60 * 86_400,
    ...samples,
  };
  return Object.entries(all)
    .flatMap(([name, value]) =>
      value === undefined ? [] : `${name} ${value instanceof Function ? value(seconds) : value}\n`,
    )
    .join('');
}

const growing = { unlanded: (seconds: number) => 2_000 * seconds, oldestS: (seconds: number) => seconds, landed: 0 };
const UNREPORTED = ['acknowledged_events', 'report_age_seconds', 'events', 'memory_bytes', 'memory_limit_bytes'];
const redisDown: Situation = {
  ...{ accepted: 0, landed: 0, refused: { QUEUE_UNAVAILABLE: [503, 2_000] } },
  samples: {
    ...{ ingest_queue_available: 0, 'ingest_queue_up{partition="0"}': 0, ingest_queue_consumers: undefined },
    ...Object.fromEntries(UNREPORTED.map((name) => [`ingest_queue_${name}`, undefined])),
  },
};

type Shows = readonly [word: string, level: string, reason: RegExp];

/** Each situation, and the word, the level and the sentence that the page shows. */
export const SITUATIONS: Readonly<Record<string, Situation & { readonly shows: Shows }>> = {
  idle: { accepted: 0, unlanded: () => 0, oldestS: () => 0, shows: ['LIVE', 'good', /0\/s accepted/] },
  'no consumers': {
    ...growing,
    samples: { ingest_queue_consumers: 0 },
    shows: ['NOT LANDING', 'bad', /No consumer has a heartbeat.* [\d,]+ events wait, the oldest for \d+/],
  },
  'warehouse down': {
    ...growing,
    samples: { ingest_lookups_available: 0 },
    shows: ['WAREHOUSE DOWN', 'bad', /warehouse does not answer look-ups.*No event lands/],
  },
  'Redis down': {
    ...redisDown,
    unready: 'connect ECONNREFUSED 127.0.0.1:6379',
    shows: ['REFUSING', 'bad', /^Redis: connection refused \(127\.0\.0\.1:6379\)/],
  },
  'Redis without a name': {
    ...redisDown,
    unready: 'getaddrinfo ENOTFOUND redis.internal',
    shows: ['REFUSING', 'bad', /^Redis: unknown host name \(redis\.internal\)/],
  },
  full: {
    // A warning of an earlier rule is less.
    samples: { ingest_queue_memory_bytes: 3.9 * GIBIBYTE, ingest_lookups_available: 0 },
    shows: ['NEARLY FULL', 'bad', /98 % of its memory/],
    beside: ['WAREHOUSE DOWN'],
  },
  'a part of the queue without consumers': {
    samples: {
      ...{ ingest_queue_consumers: undefined, 'ingest_queue_consumers{partition="0"}': 3 },
      'ingest_queue_consumers{partition="1"}': 0,
    },
    shows: ['NOT LANDING', 'bad', /^No consumer of part 1 of the queue has a heartbeat/],
  },
  'a part of the queue without replicas': {
    samples: {
      ...{ 'ingest_queue_replicas{partition="0"}': 0, 'ingest_queue_replicas{partition="1"}': 1 },
      ingest_queue_replicas_required: 1,
    },
    shows: ['REFUSING', 'bad', /^0 of 1 required replicas of part 0 of the queue/],
  },
  'a part of the queue down': {
    reasons: { 1: 'connect ECONNREFUSED 127.0.0.1:1' },
    refused: { QUEUE_UNAVAILABLE: [503, 2] },
    samples: { ingest_shed_total: (seconds) => 5 * seconds },
    beside: ['ERRORS'],
    shows: [
      ...(['PARTLY DOWN', 'bad'] as const),
      /^Part 1 of the queue is unavailable: Redis: connection refused.* 2\/s got 503, 5\/s were shed\.$/,
    ],
  },
  'a part of the queue unread': {
    samples: { 'ingest_queue_lag_events{partition="1"}': 0 },
    shows: ['LIVE', 'good', /^No fault is known, but not all of the queue was read/],
  },
  'all events shed': {
    ...{ accepted: 0, unlanded: () => 0, unready: 'both queues are frozen' },
    samples: { ingest_shed_total: (seconds) => 5 * seconds },
    shows: ['REFUSING', 'bad', /^both queues are frozen\. In 10 seconds, 0\/s were accepted, 5\/s were shed\.$/],
  },
  'missing replicas': {
    ...{ accepted: 0, unlanded: () => 0, refused: { QUEUE_UNAVAILABLE: [503, 2_000] } },
    samples: { ingest_queue_replicas: 0, ingest_queue_replicas_required: 1 },
    shows: ['REFUSING', 'bad', /^0 of 1 required replicas/],
  },
  'most requests refused, by mistake of producers': {
    ...{ accepted: 200, refused: { INVALID_EVENT: [400, 900] } },
    samples: { 'ingest_http_requests_total{method="POST",route="/events",status="499"}': (seconds) => 900 * seconds },
    shows: ['PRODUCER ERRORS', 'warn', /82 % of the requests are refused with INVALID_EVENT/],
  },
  'some requests refused': {
    refused: { EVENT_ID_CONFLICT: [409, 200] },
    shows: ['PRODUCER ERRORS', 'warn', /EVENT_ID_CONFLICT/],
  },
  'some requests fail': { refused: { INTERNAL: [500, 100] }, shows: ['ERRORS', 'bad', /INTERNAL/] },
  slow: { slow: 0.05, shows: ['SLOW', 'warn', /5 % of the requests/] },
  'slow until a moment ago': {
    samples: {
      'ingest_http_request_duration_seconds_bucket{le="0.2",route="/events"}': (seconds) =>
        2_000 * seconds - 100 * Math.min(seconds, 58),
    },
    shows: ['SLOW', 'warn', /^[\d.]+ % of the requests of the last minutes took longer/],
  },
  'a short pause that made requests slow': {
    slow: 0.05,
    samples: {
      ingest_process_stall_seconds_count: (seconds) => Number(seconds > 70),
      ingest_process_stall_seconds_sum: (seconds) => 0.3 * Number(seconds > 70),
    },
    shows: ['STANDS STILL', 'warn', /stood still for 0\.3 s/],
  },
  'one event that waits': {
    ...{ unlanded: () => 1, oldestS: () => 5, landed: 0 },
    samples: { ingest_queue_consumers: 0 },
    shows: ['NOT LANDING', 'bad', / 1 event waits, the oldest for 5 s\.$/],
  },
  'most events shed': {
    samples: { ingest_shed_total: (seconds) => 1_500 * seconds },
    shows: ['REFUSING', 'bad', /^75 % of the requests are refused, most with INGEST_SHED/],
  },
  'a consumer that is not ready': {
    ...{ program: 'consumer', unready: 'the warehouse is unavailable: it does not answer' },
    shows: ['NOT LANDING', 'warn', /^the warehouse is unavailable/],
  },
  'a part of the queue that a consumer does not read': {
    ...{ program: 'consumer', reasons: { 1: 'frozen' } },
    shows: ['PARTLY DOWN', 'warn', /^Part 1 of the queue is not read: Redis: frozen\.$/],
  },
  'a TLS file that expires in two weeks': {
    samples: { 'ingest_tls_certificate_expiry_seconds{file="cert"}': 14 * 86_400 - 60 },
    shows: ['CERTIFICATE EXPIRES', 'warn', /^The TLS file cert expires in 14/],
  },
  'a TLS file that expires today': {
    samples: { 'ingest_tls_certificate_expiry_seconds{file="cert"}': 40_000 },
    shows: ['CERTIFICATE EXPIRES', 'warn', /^The TLS file cert expires in 0\.5 days\.$/],
  },
  'a consumer without its warehouse, beside others that land': {
    program: 'consumer',
    samples: { ...{ ingest_lookups_available: undefined, ingest_warehouse_available: 0 }, ingest_queue_consumers: 0 },
    shows: ['WAREHOUSE DOWN', 'bad', /^This consumer cannot write to the warehouse\. 3 events wait/],
  },
  'landing late': {
    ...{ oldestS: () => 400, unlanded: () => 90_000 },
    samples: { 'ingest_queue_oldest_unlanded_seconds{partition="1"}': 1 },
    shows: ['LANDING LATE', 'warn', /7 min old/],
  },
  'a list that expires': {
    samples: { 'ingest_tls_certificate_expiry_seconds{file="crl"}': 86_000 },
    shows: ['LIST EXPIRES', 'bad', /revocation list is due in/],
  },
  'a list that is overdue': {
    samples: { 'ingest_tls_certificate_expiry_seconds{file="crl"}': -5 },
    shows: ['LIST EXPIRES', 'bad', /^The revocation list is overdue/],
  },
  'two TLS files that expire': {
    samples: {
      'ingest_tls_certificate_expiry_seconds{file="client_ca"}': 86_400,
      'ingest_tls_certificate_expiry_seconds{file="cert"}': -60,
    },
    shows: ['CERTIFICATE EXPIRES', 'warn', /^The TLS file cert has expired/],
  },
  'a clock that is wrong': {
    samples: { ingest_clock_skew_seconds: 61 },
    shows: ['CLOCK WRONG', 'warn', /differ by 61 s/],
  },
  quarantine: {
    // The first one makes the series.
    samples: { 'ingest_quarantined_total{reason="schema"}': (seconds) => (seconds < 60 ? NaN : 2) },
    shows: ['QUARANTINE', 'warn', /^2 events could not land/],
  },
  'refused files beside good ones': {
    samples: { 'ingest_reload_current{kind="tls"}': 0, 'ingest_reload_current{kind="producers"}': 1 },
    shows: ['FILES REFUSED', 'warn', /last good ones/],
  },
  'look-ups that find nothing or fail': {
    refused: { EVENT_NOT_FOUND: [404, 2_000] },
    samples: {
      'ingest_http_requests_total{method="GET",route="/events/{id}",status="503"}': (seconds) => 9_000 * seconds,
    },
    shows: ['LIVE', 'good', /accepted/],
  },
};
