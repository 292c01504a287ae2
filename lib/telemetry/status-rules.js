// The rules that turn the figures of the status page into one word about the whole, and the tiles. Each rule has the
// alert of deploy/alerts.yml whose chapter of the runbook helps. A figure and its color cover the same window, so a
// window here is shorter than that of the alert.
import {
  KEPT,
  LAST,
  WINDOW_S,
  grouped,
  expiry,
  inWords,
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
  longest,
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
const slow = (j) => 1 - share(['latency:0.2'], 'latency:Infinity', j);
/** The share of five minutes, once the page has seen one of them: short windows in between may be good. */
function wasSlow() {
  const first = since(LAST, 300);
  return at[LAST] - at[first] < 60_000 ? NaN : slow(first);
}
const stalledS = () => increase('stalledS', LAST, since(LAST, WINDOW_S));
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
    .filter((name) => OURS.test(name))
    .sort((a, b) => (rate(b) || 0) - (rate(a) || 0))[0]
    ?.slice(8);
const count = (value, noun) => `${text(plain, value)} ${noun}${value === 1 ? '' : 's'}`;
const isRead = () => Number.isFinite(reported('readAt')) && latest('unread') === 0;
const waiting = () => {
  const events = latest('unlanded');
  if (!(events > 0)) return isRead() && events === 0 ? '' : ' How many events wait is not known.';
  const noun = count(events, 'event');
  if (!isRead()) return ` At the last reading, ${noun} waited.`;
  return ` ${noun} ${events === 1 ? 'waits' : 'wait'}, the oldest for ${text(duration, latest('age'))}.`;
};
/** The part of the queue to which the lowest figure belongs. */
const partOf = (name) => (latest(`${name} part`) >= 0 ? ` of part ${latest(`${name} part`)} of the queue` : '');
/** What producers got in the window. The state of the queue alone does not say it. */
function answers() {
  const [unavailable, shed] = [total('refused QUEUE_'), total('refused INGEST_SHED')];
  if (!(unavailable + shed > 0)) return '';
  if (!(rate('accepted') + shed > 0)) return ' Producers get 503 and send again.';
  const rates = [
    [rate('accepted'), 'were accepted'],
    [unavailable, 'got 503'],
    [shed, 'were shed'],
  ].filter(([value], i) => !i || value);
  return ` In ${seconds()} seconds, ${rates.map(([value, what]) => `${text(perSecond, value)} ${what}`).join(', ')}.`;
}
const soonest = () =>
  named('expiry ')
    .filter((name) => name !== 'expiry crl' && latest(name) < 14 * 86400)
    .sort((a, b) => latest(a) - latest(b))[0];
const level = (bad, warn) => (bad ? 'bad' : warn ? 'warn' : undefined);
const because = ({ reason, status }) => inWords(reason ?? status);
const isUnavailable = () => now.ready.status === 'unavailable';
const awayParts = () =>
  Object.entries(now.ready.reasons ?? {})
    .map(
      ([part, reason]) => `${part} of the queue ${downParts() ? 'is unavailable' : 'is not read'}: ${inWords(reason)}`,
    )
    .join('; part ');
/** A consumer does not read parts that have enough other consumers. */
const downParts = () => is('gateway') || latest('partsDown') > 0;
/** The program, `gateway` or `consumer`, and the last answer of `health/ready`. */
export const now = { program: undefined, ready: undefined };
const is = (program) => now.program === program;
/** The worst first. Each has its alert, its word, its sentence, and its level while it holds. */
const RULES = {
  queue: [
    'IngestQueueUnavailable',
    'REFUSING',
    () => `${because(now.ready)}.${answers()}`,
    () => level(is('gateway') && isUnavailable()),
  ],
  self: [
    'IngestConsumerNotReady',
    'NOT LANDING',
    () => `${because(now.ready)}.${waiting()}`,
    () => level(false, is('consumer') && isUnavailable()),
  ],
  replicas: [
    'IngestReplicasMissing',
    'REFUSING',
    () =>
      `${latest('replicas')} of ${latest('wanted')} required replicas${partOf('replicas') || ' of Redis'} are connected.${answers()}`,
    () => level(reported('replicas') < latest('wanted')),
  ],
  refusing: [
    'IngestServerErrors',
    'REFUSING',
    () => `${text(percent, failing())} of the requests are refused, most with ${commonest()}.`,
    () => level(failing() > 0.5),
  ],
  consumers: [
    'IngestNoConsumer',
    'NOT LANDING',
    () => `No consumer${partOf('consumers')} has a heartbeat: none is running, or all stand still.${waiting()}`,
    () => level(is('gateway') && reported('consumers') === 0),
  ],
  warehouse: [
    'IngestWarehouseUnavailable',
    'WAREHOUSE DOWN',
    () =>
      `${is('gateway') ? 'The warehouse does not answer look-ups.' : 'This consumer cannot write to the warehouse.'}${nothingLands() ? ' No event lands.' : ''}${waiting()}`,
    () => level(latest('warehouse') === 0 && (is('consumer') || nothingLands()), latest('warehouse') === 0),
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
    () => `Part ${awayParts()}.${answers()}`,
    () => level(now.ready.unavailable && downParts(), now.ready.unavailable),
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
    () =>
      latest('expiry crl') <= 0
        ? 'The revocation list is overdue: every producer of its authority is refused.'
        : `The revocation list is due ${expiry(latest('expiry crl'))}. Then every producer of its authority is refused.`,
    () => level(latest('expiry crl') < 86400),
  ],
  stalls: [
    'IngestProcessStalls',
    'STANDS STILL',
    () =>
      `This process stood still for ${grouped(longest('stalledS', 'stalls'), 1)} s: look for a CPU limit, other work on the machine, swap, or a long garbage collection. In ${seconds()} seconds, it stood still for ${grouped(stalledS(), 1)} s in all.`,
    () => level(false, stalledS() > 0.5 || (stalledS() > 0 && slow() > 0.01)),
  ],
  latency: [
    'IngestLatencyHigh',
    'SLOW',
    () =>
      slow() > 0.01
        ? `${text(percent, slow())} of the requests take longer than 200 ms.`
        : `${text(percent, wasSlow())} of the requests of the last minutes took longer than 200 ms.`,
    () => level(slow() > 0.144, slow() > 0.01 || wasSlow() > 0.01),
  ],
  clock: [
    'IngestClockSkewed',
    'CLOCK WRONG',
    () =>
      `The clocks of this process and of the queue differ by ${text(duration, latest('skew'))}. One of them is wrong.`,
    () => level(false, latest('skew') > 60),
  ],
  behind: [
    'IngestLandingBehind',
    'LANDING LATE',
    () =>
      `${isRead() ? 'The' : 'By the last reading, the'} oldest unlanded event is ${text(duration, latest('age'))} old.`,
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
      `The TLS file ${soonest()?.slice(7)} ${latest(soonest()) <= 0 ? 'has' : 'expires'} ${expiry(latest(soonest()))}.`,
    () => level(false, soonest() !== undefined),
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
  stalls: ['latency'],
};
/** The rules that hold now, the worst first. A cause is as bad as its consequences; `level` is that of its alert. */
export function problems() {
  const found = Object.keys(RULES)
    .map((name) => [name, RULES[name][3]()])
    .filter(([, level]) => level);
  const consequences = found.flatMap(([name]) => CONSEQUENCES[name] ?? []);
  return found
    .map(([name, level]) => {
      const [alert, word, sentence] = RULES[name];
      const hidden = found.filter(([other]) => CONSEQUENCES[name]?.includes(other));
      const isBad = [[name, level], ...hidden].some(([, one]) => one === 'bad');
      const isConsequence = consequences.includes(name);
      return { name, level, worst: isBad ? 'bad' : 'warn', alert, word, text: sentence(), isConsequence };
    })
    .sort((a, b) => (b.worst === 'bad') - (a.worst === 'bad'));
}
export const well = () =>
  [
    isRead() && latest('unlanded') >= 0 ? 'Everything works' : 'No fault is known, but not all of the queue was read',
    ...[
      [rate('accepted'), 'accepted by this gateway'],
      [landed(), 'landed by all consumers'],
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
      ? 'at the last reading, if any'
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
      rules: ['stalls', 'latency'],
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
      rules: ['stalls'],
      hint: ['IngestProcessStalls', 'if it stands still'],
    },
    { ...WAREHOUSE, note: () => 'for rows' },
    MEMORY,
  ],
};
