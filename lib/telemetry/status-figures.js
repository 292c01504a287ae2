// The figures of the status page: parsed samples of `/metrics`, their history of ten minutes, and numbers as text.
export const KEPT = 600;
export const LAST = KEPT - 1;
export const WINDOW_S = 10;
const SERIES_MAX = 80;

// A number as text, and its unit.
export const grouped = (value, digits = 0) => value.toLocaleString('en-US', { maximumFractionDigits: digits });
export const plain = (value) => [grouped(value, value < 10 ? 1 : 0), ''];
export const perSecond = (value) => [grouped(value, value < 10 ? 1 : 0), '/s'];
export function duration(s) {
  if (s === 0) return ['0', 's'];
  if (s < 1) return [grouped(s * 1000, s < 0.01 ? 1 : 0), 'ms'];
  if (s < 120) return [grouped(s, s < 10 ? 1 : 0), 's'];
  if (s < 7200) return [grouped(s / 60), 'min'];
  return s < 172800 ? [grouped(s / 3600, 1), 'h'] : [grouped(s / 86400), 'days'];
}
export function bytes(value) {
  const power = Math.min(4, Math.max(0, Math.floor(Math.log2(Math.max(1, value)) / 10)));
  return [grouped(value / 1024 ** power, 1), ['B', 'KiB', 'MiB', 'GiB', 'TiB'][power]];
}
export const percent = (share) => [grouped(share * 100, share < 0.1 ? 1 : 0), '%'];
export const text = (format, value) =>
  Number.isFinite(value)
    ? format(value)
        .filter(Boolean)
        .join(format === perSecond ? '' : '\u00a0')
    : '–';

/** When a TLS file expires, for the sentence and the table. */
export const expiry = (s) =>
  s <= 0 ? 'expired' : `in ${text(() => [grouped(s / 86400, s < 864000 ? 1 : 0), 'days'], s)}`;
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

// Prometheus text: name -> samples with labels and a value.
export function parse(exposition) {
  const families = new Map();
  for (const line of exposition.split('\n')) {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!match) continue;
    const labels = {};
    for (const [, name, value] of (match[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g))
      labels[name] = value.replace(/\\(.)/g, (_, escaped) => (escaped === 'n' ? '\n' : escaped));
    if (!families.has(match[1])) families.set(match[1], []);
    families.get(match[1]).push({ labels, value: Number(match[3].replace('Inf', 'Infinity')) });
  }
  return families;
}

// Ten minutes of each figure, in arrays of a fixed size.
export const at = new Float64Array(KEPT).fill(NaN);
export const kept = new Map();
export function record(readMs, figures) {
  for (const values of [at, ...kept.values()]) {
    values.copyWithin(0, 1);
    values[LAST] = NaN;
  }
  at[LAST] = readMs;
  for (const [name, value] of figures) {
    if (!kept.has(name) && kept.size < SERIES_MAX) kept.set(name, new Float64Array(KEPT).fill(NaN));
    if (kept.has(name)) kept.get(name)[LAST] = value;
  }
}
export const latest = (name) => kept.get(name)?.[LAST] ?? NaN;
/** The index of the first sample within `seconds` before sample `i`. */
export function since(i, seconds) {
  let j = i;
  while (j > 0 && at[j - 1] >= at[i] - seconds * 1000 - 200) j -= 1;
  return j;
}
/** A counter's increase from sample `j` to `i`; NaN across a restart. */
export function increase(name, i, j) {
  const values = kept.get(name);
  const from = values && Number.isNaN(values[j]) && j < i ? 0 : values?.[j];
  return values && i > j && values[i] >= from ? values[i] - from : NaN;
}
export function rate(name, i = LAST) {
  const j = since(i, WINDOW_S);
  return (increase(name, i, j) * 1000) / (at[i] - at[j]);
}
/** The longest of some durations in the window, from their sum and number: a poll sees at most a few. */
export function longest(sum, number) {
  const means = [NaN];
  for (let i = LAST; i > since(LAST, WINDOW_S); i -= 1)
    means.push(increase(sum, i, i - 1) / increase(number, i, i - 1));
  return Math.max(...means.filter(Number.isFinite));
}
/** The q-quantile of a histogram's increase, linear within a bucket as in PromQL. */
export function quantile(histogram, q, i = LAST) {
  const j = since(i, WINDOW_S);
  const bounds = limits.get(histogram) ?? [];
  const rank = q * increase(`${histogram}:Infinity`, i, j);
  if (!(rank > 0)) return NaN;
  let [below, lower] = [0, 0];
  for (const bound of bounds) {
    const upTo = increase(`${histogram}:${bound}`, i, j);
    if (upTo >= rank) return bound === Infinity ? lower : lower + ((bound - lower) * (rank - below)) / (upTo - below);
    below = upTo;
    lower = bound;
  }
  return NaN;
}
const limits = new Map();
export const sum = (names, value) => names.reduce((all, name) => all + (value(name) || 0), 0);
export const named = (prefix) => [...kept.keys()].filter((name) => name.startsWith(prefix));
/** The share of `parts` in `whole`. */
export const share = (parts, whole, j = since(LAST, WINDOW_S)) =>
  sum(parts, (name) => increase(name, LAST, j)) / increase(whole, LAST, j);

// The figures of each poll.
/** Codes of answers to requests other than POST /events. */
const OTHER = /^(EVENT_NOT_FOUND|LOOKUP_UNAVAILABLE|ROUTE_NOT_FOUND|METHOD_NOT_ALLOWED)$/;
export function figuresOf(families, readMs) {
  const figures = new Map();
  const of = (name) => families.get(`ingest_${name}`) ?? [];
  const add = (name, value) => figures.set(name, (figures.get(name) ?? 0) + value);
  const histogram = (name, family, wanted) => {
    const found = of(`${family}_bucket`)
      .filter(({ labels }) => wanted(labels))
      .map(({ labels: { le }, value }) => [Number(le.replace('+Inf', 'Infinity')), value]);
    for (const [bound, value] of found) add(`${name}:${bound}`, value);
    limits.set(
      name,
      [...new Set(found.map(([bound]) => bound))].sort((a, b) => a - b),
    );
  };
  for (const [name, family] of Object.entries({
    accepted: 'accepted_total',
    landed: 'landed_total',
    flight: 'events_in_flight',
    connections: 'connections',
    unlanded: 'queue_lag_events',
    events: 'queue_events',
    memory: 'queue_memory_bytes',
    limit: 'queue_memory_limit_bytes',
    acknowledged: 'queue_acknowledged_events',
    ready: 'consumer_ready',
    stalls: 'process_stall_seconds_count',
    stalledS: 'process_stall_seconds_sum',
    'refused INGEST_SHED': 'shed_total',
  }))
    for (const { value } of of(family)) add(name, value);
  for (const [name, family, pick] of [
    ['age', 'queue_oldest_unlanded_seconds', Math.max],
    ['queue', 'queue_available', Math.max],
    ['readAge', 'queue_report_age_seconds', Math.max],
    ['consumers', 'queue_consumers', Math.min],
    ['consumers', 'consumer_replicas', Math.min],
    ['replicas', 'queue_replicas', Math.min],
    ['wanted', 'queue_replicas_required', Math.max],
    ['warehouse', 'warehouse_available', Math.min],
    ['warehouse', 'lookups_available', Math.min],
    ['reloaded', 'reload_current', Math.min],
    ['skew', 'clock_skew_seconds', Math.max],
  ]) {
    const found = of(family);
    if (found.length === 0) continue;
    figures.set(name, pick(...found.map(({ value }) => value)));
    const part = found.find(({ value }) => value === figures.get(name))?.labels.partition;
    if (name === 'replicas' || name === 'consumers') figures.set(`${name} part`, Number(part ?? NaN));
  }
  figures.set('partsDown', of('queue_up').filter(({ value }) => value === 0).length);
  figures.set('unread', of('queue_lag_events').length - of('queue_report_age_seconds').length);
  figures.set('readAt', readMs / 1000 - (figures.get('readAge') ?? NaN));
  for (const { labels, value } of of('tls_certificate_expiry_seconds')) figures.set(`expiry ${labels.file}`, value);
  histogram('latency', 'http_request_duration_seconds', ({ route }) => route === '/events');
  histogram('delay', 'landing_delay_seconds', () => true);
  for (const { labels, value } of of('http_requests_total')) {
    if (labels.route !== '/events' || labels.status === '499') continue;
    add('requests', value);
    if (labels.status >= '400') add('declined', value);
    if (labels.status >= '500') add('failed', value);
  }
  for (const { labels, value } of of('errors_total'))
    if (!OTHER.test(labels.code)) add(`refused ${labels.code}`, value);
  for (const { labels, value } of of('quarantined_total')) add(`quarantined ${labels.reason}`, value);
  return figures;
}
