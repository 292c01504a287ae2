// Requests for fuzzing: valid requests, some of them pipelined, with a few wrong bytes. The seed and the number
// determine a case.

export interface FuzzCase {
  readonly bytes: Buffer;
  /** Where the bytes are cut into pieces, in ascending order. */
  readonly cuts: readonly number[];
  readonly requests: number;
}

type Random = (below: number) => number;

/** The pseudorandom generator Mulberry32. */
function randomOf(seed: number): Random {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

const one = <T>(random: Random, list: readonly T[]): T => list[random(list.length)] as T;

const TARGETS = '/events /events /events /events/a /events/%00 /health/live / /events?a=b * http://g/events'.split(' ');
const METHODS = 'POST POST POST GET HEAD PUT OPTIONS DELETE'.split(' ');
const FIELDS = [
  'Content-Type: application/json',
  'Content-Type: application/cloudevents+json; charset=utf-8',
  'Content-Type: text/plain',
  'Content-Encoding: gzip',
  'Content-Encoding: zstd',
  'Connection: close',
  'Connection: keep-alive',
  'Connection: Upgrade\r\nUpgrade: h2c',
  'Expect: 100-continue',
  'Expect: nothing',
  'TE: trailers',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: identity',
  'Transfer-Encoding: gzip, chunked',
  'Transfer-Encoding:\tchunked ',
  'Content-Length: 0',
  'Content-Length: 5',
  'Content-Length: +5',
  'Content-Length: 5, 5',
  'Content-Length : 5',
  'X-Folded: a\r\n b',
  'Host: other',
  'Authorization: Bearer a.b.c',
  'X-Long: ' + 'x'.repeat(500),
  'X-Bytes: \u00e9\u0000',
  'X-Request-Id: a\tb \u00e9',
];
const MARKS = [
  '\r\n',
  '\n',
  '\r',
  '\r\n\r\n',
  ' ',
  '\t',
  ':',
  ',',
  '\0',
  '\x7f',
  '\x0b',
  '0\r\n\r\n',
  '%',
  ';',
  '"',
] as const;
const TOKENS = [...MARKS, 'HTTP/1.0', 'HTTP/1.1', 'HTTP/2.0', ...FIELDS];

function request(random: Random, name: string): string {
  const chunked = random(6) === 0;
  const body = random(4) === 0 ? '' : random(5) === 0 ? `{"id":"${name}"}` : `{"id":"${name}","type":"fuzz"}`;
  const plain = random(2) === 0;
  const fields = ['Host: g', 'Content-Type: application/json', `X-Request-Id: ${name}`];
  if (chunked) fields.push('Transfer-Encoding: chunked');
  else if (body !== '') fields.push(`Content-Length: ${body.length}`);
  for (let more = plain ? 0 : random(3); more > 0; more -= 1)
    fields.splice(random(fields.length + 1), 0, one(random, FIELDS));
  const line = plain ? 'POST /events HTTP/1.1' : `${one(random, METHODS)} ${one(random, TARGETS)} HTTP/1.1`;
  const coded = chunked ? `${body === '' ? '' : `${body.length.toString(16)}\r\n${body}\r\n`}0\r\n\r\n` : body;
  return `${line}\r\n${fields.join('\r\n')}\r\n\r\n${coded}`;
}

function mutate(random: Random, text: string): string {
  const at = random(text.length + 1);
  switch (random(6)) {
    case 0:
      return text.slice(0, at) + String.fromCharCode(random(256)) + text.slice(at + 1);
    case 1:
      return text.slice(0, at) + one(random, TOKENS) + text.slice(at);
    case 2:
      return text.slice(0, at) + text.slice(at + 1 + random(8));
    case 3: {
      const from = random(text.length + 1);
      return text.slice(0, at) + text.slice(from, from + random(60)) + text.slice(at);
    }
    case 4: {
      const lines = text.split('\r\n');
      lines.splice(random(lines.length), random(2), one(random, FIELDS));
      return lines.join('\r\n');
    }
    default:
      return text.slice(0, at);
  }
}

export function fuzzCase(seed: number, number: number): FuzzCase {
  const random = randomOf(Math.imul(seed, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b));
  const requests = 1 + random(4);
  let text = '';
  for (let at = 0; at < requests; at += 1) text += request(random, `fuzz-${seed}-${number}-${at}`);
  for (let mutations = random(4); mutations > 0; mutations -= 1) text = mutate(random, text);
  const cuts = Array.from({ length: random(4) }, () => random(text.length + 1)).sort((one, other) => one - other);
  return { bytes: Buffer.from(text, 'latin1'), cuts, requests };
}
