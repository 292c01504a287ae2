// Draws the status page. It polls `metrics` and `health/ready`, and keeps no state that outlives the tab.
/* global document, fetch, AbortSignal, setInterval, addEventListener, requestAnimationFrame */
import {
  KEPT,
  LAST,
  expiry,
  inWords,
  plain,
  perSecond,
  duration,
  text,
  parse,
  at,
  kept,
  record,
  since,
  rate,
  quantile,
  named,
  figuresOf,
} from './status-figures.js';
import { landed, problems, well, TILES, now } from './status-rules.js';

const [STALE_MS, DOWN_MS, COLORS] = [3000, 10000, 5];
const $ = (id) => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';

function element(tag, className = '', text = '') {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}
function shape(tag, attributes, className = '', text = '') {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (className) made.setAttribute('class', className);
  made.textContent = text;
  return made;
}
/** Keeps unchanged text, so that selections and the position of a screen reader stay. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const line = (label, value, right = false) => ({ label, value, right });
const gauge = (name, label = name, right = false) => line(label, (i) => kept.get(name)?.[i], right);
const percentiles = (name) => () => [50, 99].map((p) => line(`p${p}`, (i) => quantile(name, p / 100, i)));
const each = (prefix) =>
  named(prefix).map((name) => ({ ...line(name.slice(prefix.length), (i) => rate(name, i)), rare: true }));
const WAITING = {
  title: 'Unlanded events and their age',
  format: plain,
  right: duration,
  lines: () => [gauge('unlanded'), gauge('age', 'oldest (right axis)', true)],
};
const CHARTS = {
  gateway: [
    {
      title: 'Events per second',
      format: perSecond,
      lines: () => [line('accepted', (i) => rate('accepted', i)), line('landed', landed), ...each('refused ')],
    },
    { title: 'Time to answer POST /events', format: duration, target: 0.2, lines: percentiles('latency') },
    {
      title: 'Events in flight and connections',
      format: plain,
      lines: () => [gauge('flight', 'in flight'), gauge('connections')],
    },
    WAITING,
  ],
  consumer: [
    {
      title: 'Events per second',
      format: perSecond,
      lines: () => [
        line('landed by all', landed),
        line('by this one', (i) => rate('landed', i)),
        ...each('quarantined '),
      ],
    },
    { title: 'Landing delay', format: duration, lines: percentiles('delay') },
    WAITING,
    { title: 'Consumers with a heartbeat', format: plain, lines: () => [gauge('consumers')] },
  ],
};

function makeTile({ label }) {
  const tile = element('li');
  const value = element('span', 'value');
  const [number, unit, note, alert] = [
    element('span'),
    element('small'),
    element('span', 'note'),
    element('a', 'alert'),
  ];
  value.append(number, unit);
  tile.append(element('h2', '', label), value, note, alert);
  $('tiles').append(tile);
  return { tile, number, unit, note, alert };
}
function showTile({ tile, number, unit, note, alert }, { format, figure, note: noted, rules, hint }, found) {
  const value = figure();
  const [digits, suffix] = Number.isFinite(value) ? format(value) : ['–', ''];
  say(number, digits);
  say(unit, suffix);
  say(note, noted());
  const problem = found.find(({ name }) => rules.includes(name));
  tile.className = problem?.level ?? '';
  alert.hidden = !problem && !hint;
  if (problem) link(alert, problem.alert, `${problem.level === 'bad' ? 'critical' : 'warning'}: ${problem.alert}`);
  else if (hint) link(alert, hint[0], `alert ${hint[1]}`);
}
/** A link to the alert's chapter in the runbook. */
function link(node, alert, content) {
  // A long name may break between its words.
  if (node.textContent !== content)
    node.replaceChildren(...content.split(/(?<=[a-z])(?=[A-Z])/).flatMap((part) => [part, element('wbr')]));
  node.title = alert;
  node.href = `runbook#${alert.toLowerCase()}`;
}

const [HEIGHT, TOP, FLOOR, LEFT] = [180, 10, 158, 52];
let cursor;
function makeChart({ title }) {
  const figure = element('figure');
  const [caption, legend] = [element('figcaption'), element('ul', 'legend')];
  const svg = shape('svg', { role: 'img', tabindex: 0 });
  caption.append(element('h2', '', title), legend);
  figure.append(caption, svg);
  $('charts').append(figure);
  svg.addEventListener('pointermove', ({ offsetX }) =>
    moveTo(Number(svg.dataset.left), Number(svg.dataset.right), offsetX),
  );
  for (const left of ['pointerleave', 'blur']) svg.addEventListener(left, () => ((cursor = undefined), draw()));
  svg.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -5, ArrowRight: 5 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    cursor = Math.min(LAST, Math.max(since(LAST, KEPT), (cursor ?? LAST) + step));
    draw();
  });
  return { svg, legend };
}
function moveTo(left, right, x) {
  const wanted = at[LAST] - ((right - x) / (right - left)) * span() * 60000;
  cursor = LAST;
  while (cursor > 0 && at[cursor - 1] >= wanted) cursor -= 1;
  draw();
}
/** The time axis, in minutes: it grows to ten with the history. */
const span = () => [1, 2, 5, 10].find((minutes) => at[LAST] - at[since(LAST, KEPT)] <= minutes * 60000) ?? 10;
/** Round steps of an axis from 0 to at least `most`, at most five. */
function steps(most, format) {
  const unit = format === duration && most >= 60 ? (most >= 7200 ? 3600 : 60) : 1;
  const rough = Math.max(most / unit, format === duration ? 0.01 : 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step =
    [1, 2, 2.5, 5, 10]
      .map((factor) => factor * power)
      .find((one) => one >= rough && (format === duration || one >= 1)) ?? 10 * power;
  const size = Math.max(step, format === duration ? 0 : 1) * unit;
  return Array.from({ length: Math.max(2, Math.ceil(most / size - 1e-9) + 1) }, (_, i) => i * size);
}
function drawChart({ svg, legend }, { title, format, right, target, lines }) {
  const width = svg.clientWidth || 560;
  const [from, to] = [LEFT, width - (right ? LEFT : 10)];
  Object.assign(svg.dataset, { left: from, right: to });
  const [first, minutes] = [since(LAST, KEPT), span()];
  const drawn = lines()
    .map((one) => ({ ...one, values: Array.from({ length: KEPT - first }, (_, i) => one.value(first + i) ?? NaN) }))
    .filter(({ rare, values }) => !rare || values.some((value) => value > 0));
  const most = (side) =>
    Math.max(0, ...drawn.filter((one) => one.right === side).flatMap(({ values }) => values.filter(Number.isFinite)));
  const axes = [false, true].map((side) =>
    steps(Math.max(most(side), side ? 1 : (target ?? 0) * 1.1), side ? (right ?? plain) : format),
  );
  const y = (value, side) => TOP + (FLOOR - TOP) * (1 - value / axes[Number(side)].at(-1));
  const x = (time) => to - ((at[LAST] - time) / (minutes * 60000)) * (to - from);
  const parts = [];
  for (const tick of axes[0]) {
    parts.push(shape('line', { x1: from, x2: to, y1: y(tick, false), y2: y(tick, false) }, 'grid'));
    parts.push(
      shape(
        'text',
        { x: from - 8, y: y(tick, false) + 4, 'text-anchor': 'end' },
        '',
        tick === 0 ? '0' : text(format, tick),
      ),
    );
  }
  if (right)
    for (const tick of axes[1])
      parts.push(shape('text', { x: to + 8, y: y(tick, true) + 4 }, '', tick === 0 ? '0' : text(right, tick)));
  const ticks = to - from < 320 ? 2 : minutes === 1 ? 4 : Math.min(5, minutes);
  for (let i = 0; i <= ticks; i += 1) {
    const ago = (minutes * (ticks - i)) / ticks;
    const anchor = i === 0 ? 'start' : i < ticks ? 'middle' : 'end';
    const label = ago === 0 ? 'now' : minutes === 1 ? `−${ago * 60} s` : `−${ago} min`;
    parts.push(shape('text', { x: x(at[LAST] - ago * 60000), y: HEIGHT - 6, 'text-anchor': anchor }, '', label));
  }
  if (target) {
    parts.push(shape('line', { x1: from, x2: to, y1: y(target, false), y2: y(target, false) }, 'target'));
    parts.push(shape('text', { x: from + 4, y: y(target, false) - 4 }, 'targeted', `target ${text(format, target)}`));
  }
  drawn.forEach(({ values, right: side }, color) => {
    let [d, fill] = ['', ''];
    values.forEach((value, i) => {
      if (!Number.isFinite(value)) return;
      const joined = i > 0 && Number.isFinite(values[i - 1]) && at[first + i] - at[first + i - 1] < 3500;
      const [px, py] = [x(at[first + i]).toFixed(1), y(value, side).toFixed(1)];
      if (!joined) fill += `${fill && `V${FLOOR}Z`}M${px} ${FLOOR}V${py}`;
      fill += `L${px} ${py}`;
      d += joined ? `L${px} ${py}` : `M${px} ${py}h.1`;
    });
    if (color === 0 && fill) parts.push(shape('path', { d: `${fill}V${FLOOR}Z` }, 'fill c0'));
    parts.push(shape('path', { d }, `c${color % COLORS}`));
  });
  if (cursor !== undefined)
    parts.push(shape('line', { x1: x(at[cursor]), x2: x(at[cursor]), y1: TOP, y2: FLOOR }, 'cursor'));
  svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
  svg.replaceChildren(...parts);
  const read = drawn.map(({ label, values, right: side }) => [
    label,
    text(side ? right : format, values[(cursor ?? LAST) - first]),
  ]);
  legend.replaceChildren(
    ...read.map(([label, value], color) => {
      const item = element('li', `c${color % COLORS}`);
      item.append(element('span', '', `${label} `), element('b', '', value));
      return item;
    }),
  );
  const ago = cursor === undefined ? 'now' : `${Math.round((at[LAST] - at[cursor]) / 1000)} seconds ago`;
  svg.setAttribute('aria-label', `${title}, ${ago}: ${read.map(([label, value]) => `${label} ${value}`).join(', ')}`);
}

// Tables: a stream's state, and when certificates expire.
function showTable(title, heads, rows) {
  const id = title.toLowerCase().replaceAll(' ', '-');
  let panel = $(id);
  if (!panel) {
    panel = $('tables').appendChild(Object.assign(element('section', 'panel'), { id }));
    const table = element('table');
    const head = table.createTHead().insertRow();
    for (const name of heads)
      head.append(
        Object.assign(element('th', name[0] === '#' ? 'number' : '', name.replace('#', '')), { scope: 'col' }),
      );
    table.createTBody();
    panel.append(element('h2', '', title), table);
  }
  panel.hidden = rows.length === 0;
  const body = panel.querySelector('tbody');
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, r) => {
    const row = body.rows[r] ?? body.insertRow();
    cells.forEach((cell, c) => {
      const [content, className = '', alert] = [cell].flat();
      const td = row.cells[c] ?? row.insertCell();
      td.className = `${className}${heads[c][0] === '#' ? ' number' : ''}`;
      if (!alert) return say(td, content);
      if (!td.querySelector('a')) td.replaceChildren(element('a'));
      link(td.firstChild, alert, content);
    });
  });
}
function showTables(families) {
  const of = (name) => families.get(name) ?? [];
  const nameOf = ({ labels }) => Object.values(labels).join(' ');
  const figure = (family, name) =>
    of(family).find((one) => nameOf(one) === name || of(family).length === 1)?.value ?? NaN;
  const streams = of('ingest_queue_up').length > 0 ? of('ingest_queue_up') : of('ingest_queue_available');
  const why = ({ labels }) => inWords(now.ready.reasons?.[labels.partition] ?? now.ready.reason ?? 'not known');
  showTable(
    'Streams of the queue',
    ['stream', 'state', '#unlanded', '#oldest'],
    streams
      .slice(0, 50)
      .map((one) => [
        nameOf(one) || 'ingest',
        one.value > 0
          ? ['available', 'good']
          : [
              `unavailable: ${why(one)}`,
              'bad',
              streams.length > 1 ? 'IngestPartitionUnavailable' : 'IngestQueueUnavailable',
            ],
        text(plain, figure('ingest_queue_lag_events', nameOf(one))),
        text(duration, figure('ingest_queue_oldest_unlanded_seconds', nameOf(one))),
      ]),
  );
  showTable(
    'TLS files',
    ['file', '#expires'],
    of('ingest_tls_certificate_expiry_seconds')
      .slice(0, 50)
      .map(({ labels, value }) => {
        const [alert, limit, level] =
          labels.file === 'crl' ? ['IngestCrlExpires', 86400, 'bad'] : ['IngestCertificateExpires', 14 * 86400, 'warn'];
        return [labels.file ?? '', value < limit ? [expiry(value), value <= 0 ? 'bad' : level, alert] : expiry(value)];
      }),
  );
}

let frame, asking;
let [views, tiles] = [[], []];
let [answeredMs, waitingSinceMs] = [0, NaN];
function draw() {
  frame ??= requestAnimationFrame(() => {
    frame = undefined;
    for (const [view, chart] of views) drawChart(view, chart);
  });
}
function showProgram(shown) {
  if (now.program === shown) return;
  now.program = shown;
  for (const id of ['tiles', 'charts', 'tables']) $(id).replaceChildren();
  say($('name'), `ingest-${now.program}`);
  tiles = TILES[now.program].map((tile) => [makeTile(tile), tile]);
  views = CHARTS[now.program].map((chart) => [makeChart(chart), chart]);
}
/** The word, its level and a sentence; and the problem that has them, if any. */
function stateNow(found) {
  const silentMs = Date.now() - waitingSinceMs;
  // Without the seconds, because a screen reader reads a changed text each time.
  const silence = `No answer since ${new Date(waitingSinceMs).toLocaleTimeString()}.`;
  if (silentMs >= DOWN_MS)
    return ['DOWN', 'bad', `${silence} The process is down or stands still, or the network to it is down.`];
  if (silentMs >= STALE_MS) return ['STALE', 'warn', silence];
  if (!now.ready) return ['CONNECTING', '', ''];
  if (now.ready.status === 'draining') return ['STOPPING', 'warn', 'The process is stopping.'];
  if (found.length === 0) return ['LIVE', 'good', well()];
  const [{ word, worst, text }] = found;
  return [word, worst, text, found[0]];
}
function showState() {
  const found = now.ready ? problems().filter(({ isConsequence }) => !isConsequence) : [];
  const [word, level, reason, first] = stateNow(found);
  say($('word'), word);
  $('word').className = $('state').className = level;
  say($('reason'), reason);
  $('next').hidden = !first;
  if (first) link($('next'), first.alert, `what to do: ${first.alert}`);
  else say($('next'), '');
  const others = first ? found.slice(1) : [];
  while ($('more').children.length > others.length) $('more').lastChild.remove();
  others.forEach((problem, i) => {
    const item = $('more').children[i] ?? $('more').appendChild(element('li'));
    item.className = problem.level;
    if (!item.firstChild) item.append(element('span'), ' ', element('a'));
    say(item.firstChild, problem.text);
    link(item.lastChild, problem.alert, problem.alert);
  });
  document.title = `${word} · ${$('name').textContent}`;
  document.body.classList.toggle('old', word === 'STALE' || word === 'DOWN');
}
function show(exposition, date) {
  const families = parse(exposition);
  showProgram(families.has('ingest_consumer_ready') ? 'consumer' : 'gateway');
  record(answeredMs, figuresOf(families, answeredMs));
  const found = problems();
  for (const [view, tile] of tiles) showTile(view, tile, found);
  draw();
  showTables(families);
  const { version, node } = families.get('ingest_build_info')?.[0].labels ?? {};
  const upS = Date.parse(date) / 1000 - families.get('process_start_time_seconds')?.[0].value;
  say($('about'), `version ${version ?? '–'} · node ${node ?? '–'} · up ${text(duration, Math.max(1, upS))}`);
}
const ask = async (path) => {
  const answer = await fetch(path, { cache: 'no-store', signal: AbortSignal.timeout(2500) });
  return [await answer.text(), answer.headers.get('Date')];
};
async function poll() {
  if (asking) return;
  asking = true;
  // A hidden page polls rarely, so a pause does not mean that the process is silent.
  if (Number.isNaN(waitingSinceMs)) waitingSinceMs = Math.max(answeredMs || Date.now(), Date.now() - 1200);
  const answers = await Promise.all([ask('metrics'), ask('health/ready')]).catch(() => undefined);
  asking = false;
  if (answers) {
    now.ready = JSON.parse(answers[1][0]);
    answeredMs = Date.now();
    waitingSinceMs = NaN;
    show(...answers[0]);
  }
  showState();
}
setInterval(poll, 1000);
setInterval(showState, 250);
document.addEventListener('visibilitychange', () => !document.hidden && poll());
addEventListener('resize', draw);
poll();
