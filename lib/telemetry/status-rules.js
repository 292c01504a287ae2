// The rules that turn the figures of the status page into one word about the whole, and the tiles. Each rule has the
// alert of deploy/alerts.yml whose chapter of the runbook helps. A figure and its color cover the same window, so a
// window here is shorter than that of the alert.
import {
  KEPT,
  LAST,
  WINDOW_S,
  plain,
  perSecond,
  duration,
  bytes,
  percent,
  text,
  at,
  kept,
  latest,
  since,
  increase,
  rate,
  quantile,
  sum,
  named,
  share,
} from './status-figures.js';

const total = (prefix) => sum(named(prefix), (name) => rate(name));
/** Landed events per second: entries that the consumer group acknowledged between two readings of the queue. */
export function landed(i = LAST) {
  const j = since(i, WINDOW_S);
  const readS = kept.get('readAt')?.[i] - kept.get('readAt')?.[j];
  return readS > 0.5 ? increase('acknowledged', i, j) / readS : NaN;
}
const slow = () => 1 - share(['latency:0.2'], 'latency:Infinity');
const failing = () => share(['failed', 'refused INGEST_SHED'], 'requests');
const refused = () => share(['declined', 'refused INGEST_SHED'], 'requests');
/** A figure that the queue reports; NaN while it is unavailable. */
const reported = (name) => (latest('queue') === 0 ? NaN : latest(name));
const limited = () => reported('limit') > 0;
const full = () => reported('memory') / (limited() ? latest('limit') : NaN);
const quarantined = () => sum(named('quarantined '), (name) => increase(name, LAST, since(LAST, KEPT)));
const seconds = () => Math.round((at[LAST] - at[since(LAST, WINDOW_S)]) / 1000);
function nothingLands() {
  const j = since(LAST, WINDOW_S);
  return (
    seconds() >= WINDOW_S - 1 &&
    kept.get('unlanded')?.[j] > 0 &&
    latest('unlanded') > 0 &&
    increase('acknowledged', LAST, j) === 0
  );
}
/** Refusals that are not a producer's mistake. */
const OURS = / (QUEUE_|INTERNAL|REQUEST_TIMEOUT|TOKEN_KEY_UNKNOWN|INGEST_SHED)/;
const mistakes = () => named('refused ').filter((name) => !OURS.test(name) && share([name], 'requests') > 0.05);
const commonest = () =>
  named('refused ')
    .sort((a, b) => (rate(b) || 0) - (rate(a) || 0))[0]
    ?.slice(8);
const count = (value, noun) => `${text(plain, value)} ${noun}${value === 1 ? '' : 's'}`;
const waiting = () =>
  latest('unlanded') > 0
    ? ` ${count(latest('unlanded'), 'event')} ${latest('unlanded') === 1 ? 'waits' : 'wait'}, the oldest for ${text(duration, latest('age'))}. None is lost.`
    : '';
const WHY = {
  ECONNREFUSED: 'connection refused',
  ENOTFOUND: 'unknown host name',
  EAI_AGAIN: 'the host name cannot be looked up',
  ETIMEDOUT: 'no connection in time',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  ECONNRESET: 'the connection was closed',
  EPIPE: 'the connection was closed',
};
/** A reason in words: `connect ECONNREFUSED ::1:6379` is `connection refused (::1:6379)`. */
export function inWords(reason) {
  const words = String(reason).replace(
    /(?:\b(?:connect|read|write|getaddrinfo|query\w+) )?\b(E[A-Z_]{3,})\b(?: ([^\s;,)]+))?/g,
    (found, code, place) => (WHY[code] ? WHY[code] + (place ? ` (${place})` : '') : found),
  );
  // A reason without a subject is an error of the connection to Redis.
  return /queue|warehouse|redis|listening|password/i.test(words.replace(/\(.*\)/, '')) ? words : `Redis: ${words}`;
}
const soonest = () => named('expiry ').filter((name) => latest(name) < (name === 'expiry crl' ? 1 : 14) * 86400)[0];
const level = (bad, warn) => (bad ? 'bad' : warn ? 'warn' : undefined);
const because = ({ reason, status }) => (status === 'draining' ? 'the process is stopping' : inWords(reason ?? status));
const awayParts = () =>
  Object.entries(now.ready.reasons ?? {})
    .map(([part, reason]) => `${part} of the queue is unavailable: ${inWords(reason)}`)
    .join('; part ');
/** The program, `gateway` or `consumer`, and the last answer of `health/ready`. */
export const now = { program: undefined, ready: undefined };
const is = (program) => now.program === program;
/** The worst first. Each has its alert, its word, its sentence, and its level while it holds. */
const RULES = {
  queue: [
    'IngestQueueUnavailable',
    'REFUSING',
    () => `${because(now.ready)}. Producers get 503 and send again.`,
    () => level(is('gateway') && now.ready.status !== 'ready'),
  ],
  self: [
    'IngestConsumerNotReady',
    'NOT LANDING',
    () => `${because(now.ready)}.${waiting()}`,
    () => level(is('consumer') && now.ready.status !== 'ready'),
  ],
  replicas: [
    'IngestReplicasMissing',
    'REFUSING',
    () =>
      `${latest('replicas')} of ${latest('wanted')} required replicas of Redis are connected, so producers get 503.`,
    () => level(reported('replicas') < latest('wanted')),
  ],
  refusing: [
    'IngestServerErrors',
    'REFUSING',
    () => `${text(percent, refused())} of the requests are refused, most with ${commonest()}.`,
    () => level(refused() > 0.5),
  ],
  consumers: [
    'IngestNoConsumer',
    'NOT LANDING',
    () => `No consumer is running.${waiting()}`,
    () => level(is('gateway') && reported('consumers') === 0),
  ],
  warehouse: [
    'IngestWarehouseUnavailable',
    'WAREHOUSE DOWN',
    () => `The warehouse does not answer.${nothingLands() ? ' No event lands.' : ''}${waiting()}`,
    () => level(latest('warehouse') === 0),
  ],
  landing: [
    'IngestNothingLands',
    'NOT LANDING',
    () => `No event has landed for ${seconds()} seconds.${waiting()}`,
    () => level(nothingLands()),
  ],
  partition: [
    'IngestPartitionUnavailable',
    'PARTLY DOWN',
    () => `Part ${awayParts()}.`,
    () => level(now.ready.unavailable),
  ],
  full: [
    'IngestQueueMemoryFull',
    'NEARLY FULL',
    () => `Redis uses ${text(percent, full())} of its memory. When it is full, producers get 503.`,
    () => level(full() > 0.9),
  ],
  errors: [
    'IngestServerErrors',
    'ERRORS',
    () => `${text(percent, failing())} of the requests fail, most with ${commonest()}.`,
    () => level(failing() > 0.0144, failing() > 0.001),
  ],
  list: [
    'IngestCrlExpires',
    'LIST EXPIRES',
    () => 'The revocation list is due within a day. Then every producer is refused.',
    () => level(latest('expiry crl') < 86400),
  ],
  latency: [
    'IngestLatencyHigh',
    'SLOW',
    () => `${text(percent, slow())} of the requests take longer than 200 ms.`,
    () => level(slow() > 0.144, slow() > 0.01),
  ],
  behind: [
    'IngestLandingBehind',
    'LANDING LATE',
    () => `The oldest unlanded event is ${text(duration, latest('age'))} old.`,
    () => level(false, latest('age') > 300),
  ],
  mistakes: [
    'IngestProducerErrors',
    'PRODUCER ERRORS',
    () =>
      `${text(percent, share(mistakes(), 'requests'))} of the requests are refused with ${mistakes()
        .map((name) => name.slice(8))
        .join(', ')}.`,
    () => level(false, mistakes().length > 0),
  ],
  quarantine: [
    'IngestQuarantineGrows',
    'QUARANTINE',
    () => `${count(quarantined(), 'event')} could not land and went to quarantine.`,
    () => level(false, quarantined() > 0),
  ],
  files: [
    'IngestReloadFailed',
    'FILES REFUSED',
    () => 'Changed files were refused. The last good ones stay in use.',
    () => level(false, latest('reloaded') === 0),
  ],
  certificate: [
    'IngestCertificateExpires',
    'CERTIFICATE EXPIRES',
    () =>
      `The TLS file ${soonest()?.slice(7)} expires in ${count(Math.max(0, Math.floor(latest(soonest()) / 86400)), 'day')}.`,
    () => level(false, soonest() !== undefined && soonest() !== 'expiry crl'),
  ],
};
/** Consequences, which the page does not list beside their causes. */
const CONSEQUENCES = {
  queue: ['refusing', 'errors', 'partition'],
  replicas: ['refusing', 'errors'],
  refusing: ['errors', 'mistakes'],
  self: ['warehouse', 'landing'],
  consumers: ['landing'],
  warehouse: ['landing'],
};
/** The rules that hold now, the worst first. */
export function problems() {
  const found = Object.keys(RULES)
    .map((name) => [name, RULES[name][3]()])
    .filter(([, level]) => level);
  const consequences = found.flatMap(([name]) => CONSEQUENCES[name] ?? []);
  return ['bad', 'warn'].flatMap((level) =>
    found
      .filter(([, is]) => is === level)
      .map(([name]) => {
        const [alert, word, sentence] = RULES[name];
        return { name, level, alert, word, text: sentence(), isConsequence: consequences.includes(name) };
      }),
  );
}
export const well = () =>
  [
    'Everything works',
    ...[
      [rate('accepted'), 'accepted'],
      [landed(), 'landed'],
    ]
      .filter(([value]) => value >= 0)
      .map(([value, what], i) => `${i ? ', ' : ': '}${text(perSecond, value)} ${what}`),
    '.',
  ].join('');

const LANDED = {
  label: 'Landed',
  format: perSecond,
  figure: () => landed(),
  rules: ['landing'],
  hint: ['IngestNothingLands', 'if none lands'],
};
const WAITS = {
  label: 'Waiting to land',
  format: plain,
  figure: () => latest('unlanded'),
  rules: ['behind'],
  hint: ['IngestLandingBehind', 'above 5 min'],
  note: () =>
    Number.isNaN(reported('readAt'))
      ? 'at the last reading'
      : latest('unlanded') > 0
        ? `the oldest for ${text(duration, latest('age'))}`
        : `of ${text(plain, latest('events'))} held`,
};
const CONSUMERS = {
  label: 'Consumers',
  format: plain,
  figure: () => reported('consumers'),
  note: () => 'with a heartbeat',
  rules: ['consumers'],
  hint: ['IngestNoConsumer', 'if none runs'],
};
const WAREHOUSE = {
  label: 'Warehouse',
  format: (value) => [value > 0 ? 'available' : 'no answer', ''],
  figure: () => latest('warehouse'),
  rules: ['warehouse'],
  hint: ['IngestWarehouseUnavailable', 'without an answer'],
};
const MEMORY = {
  label: 'Queue memory',
  format: (value) => (limited() ? percent : bytes)(value),
  figure: () => (limited() ? full() : reported('memory')),
  rules: ['replicas', 'full'],
  hint: ['IngestQueueMemoryFull', 'above 90 %'],
  note: () =>
    [
      limited()
        ? `${text(bytes, latest('memory'))} of ${text(bytes, latest('limit'))}`
        : reported('limit') === 0
          ? 'no limit is set'
          : 'not reported',
      latest('wanted') > 0 && `${text(plain, latest('replicas'))} of ${count(latest('wanted'), 'replica')}`,
    ]
      .filter(Boolean)
      .join(' · '),
};
export const TILES = {
  gateway: [
    {
      label: 'Accepted',
      format: perSecond,
      figure: () => rate('accepted'),
      note: () => `${text(plain, latest('accepted'))} since start`,
      rules: ['queue'],
      hint: ['IngestQueueUnavailable', 'if Redis refuses'],
    },
    { ...LANDED, note: () => 'by all consumers' },
    WAITS,
    CONSUMERS,
    {
      label: 'Refused',
      format: perSecond,
      figure: () => total('refused ') + 0 * rate('accepted'),
      note: () => `${text(percent, refused() || 0)} of the requests`,
      rules: ['refusing', 'errors', 'mistakes'],
      hint: ['IngestServerErrors', 'above 0.1 %'],
    },
    {
      label: 'p99 of POST /events',
      format: duration,
      figure: () => quantile('latency', 0.99),
      note: () => `p50 ${text(duration, quantile('latency', 0.5))}`,
      rules: ['latency'],
      hint: ['IngestLatencyHigh', 'above 200 ms'],
    },
    { ...WAREHOUSE, note: () => (latest('warehouse') >= 0 ? 'for look-ups' : 'look-ups do not use one') },
    MEMORY,
  ],
  consumer: [
    { ...LANDED, note: () => 'by all consumers' },
    {
      label: 'Landed by this one',
      format: perSecond,
      figure: () => rate('landed'),
      note: () => `${text(plain, latest('landed'))} since start`,
      rules: ['self'],
      hint: ['IngestConsumerNotReady', 'if not ready'],
    },
    WAITS,
    CONSUMERS,
    {
      label: 'Quarantined',
      format: plain,
      figure: () => quarantined(),
      note: () => 'in the last 10 min',
      rules: ['quarantine'],
      hint: ['IngestQuarantineGrows', 'above 0'],
    },
    {
      label: 'Landing p99',
      format: duration,
      figure: () => quantile('delay', 0.99),
      note: () => `p50 ${text(duration, quantile('delay', 0.5))}`,
      rules: [],
    },
    { ...WAREHOUSE, note: () => 'for rows' },
    MEMORY,
  ],
};
