// A closed-loop load generator on bare TLS sockets: each connection sends the next request when it has its answer.
//
// Why not autocannon here: with a new body for each request it makes about 3,000 requests a second where this makes
// 9,000, and on two cores the generator takes from the server what it uses itself. It reads no more of HTTP than it needs:
// status, Content-Length, end of the body.
//
// Run as a process of its own: argv[2] is LoadOptions as JSON; the result is one JSON line on standard output. The lines
// `warm` and `done` on standard error mark the measured part for whoever takes CPU times.
import { readFileSync } from 'node:fs';
import { connect, createSecureContext, type TLSSocket } from 'node:tls';
import { build } from 'hdr-histogram-js';
import type { LoadOptions, LoadResult } from './options.ts';
import { eventBody, idSource, postRequest } from './workload.ts';

const options = JSON.parse(process.argv[2] ?? '{}') as LoadOptions;
const secureContext = createSecureContext({
  ca: readFileSync(options.caPath),
  cert: readFileSync(options.certPath),
  key: readFileSync(options.keyPath),
});

// Microseconds, to one minute.
const histogram = build({ lowestDiscernibleValue: 1, highestTrackableValue: 60_000_000, numberOfSignificantValueDigits: 3 });
const statuses: Record<string, number> = {};
let measuring = false;
let stopped = false;

const nextId = idSource();
const template = eventBody('@'.repeat(36), options.bodyBytes).split('@'.repeat(36)) as [string, string];
const head = postRequest(template.join('@'.repeat(36))).split('\r\n\r\n', 1)[0] ?? '';
let repeated = 0;

function request(): string {
  if (options.ids === 'invalid') return `${head}\r\n\r\n${template[0]}${'\\u0001'.repeat(6)}${template[1]}`;
  const id = options.ids === 'new' ? nextId() : `repeated-${String((repeated += 1) % 16).padStart(27, '0')}`;
  return `${head}\r\n\r\n${template[0]}${id}${template[1]}`;
}

class Connection {
  readonly #socket: TLSSocket;
  #sentNs = 0n;
  #buffered = '';
  readonly ready: Promise<void>;
  readonly ended: Promise<void>;

  constructor() {
    this.#socket = connect({ host: '127.0.0.1', port: options.port, secureContext, ALPNProtocols: ['http/1.1'] });
    this.#socket.setNoDelay(true);
    this.ready = new Promise((resolve, reject) => {
      this.#socket.once('secureConnect', resolve);
      this.#socket.once('error', reject);
    });
    this.ended = new Promise((resolve) => this.#socket.once('close', () => resolve()));
    this.#socket.on('error', () => undefined);
    this.#socket.on('data', (chunk: Buffer) => this.#read(chunk));
    this.#socket.on('close', () => {
      if (!stopped) count('0');
    });
  }

  send(): void {
    this.#sentNs = process.hrtime.bigint();
    this.#socket.write(request(), 'latin1');
  }

  #read(chunk: Buffer): void {
    const text = this.#buffered === '' ? chunk.toString('latin1') : this.#buffered + chunk.toString('latin1');
    const end = responseEnd(text);
    if (end === -1) {
      this.#buffered = text;
      return;
    }
    this.#buffered = text.slice(end);
    if (measuring) {
      histogram.recordValue(Number(process.hrtime.bigint() - this.#sentNs) / 1000);
      count(text.slice(9, 12));
    }
    if (stopped) this.#socket.end();
    else this.send();
  }
}

/** Where the response that `text` begins with ends; -1 when it is not there whole. */
function responseEnd(text: string): number {
  const body = text.indexOf('\r\n\r\n');
  if (body === -1) return -1;
  const at = text.search(/\r\ncontent-length: */i);
  if (at === -1 || at > body) return body + 4;
  const length = Number.parseInt(text.slice(text.indexOf(':', at + 2) + 1, at + 40), 10);
  return text.length >= body + 4 + length ? body + 4 + length : -1;
}

function count(status: string): void {
  statuses[status] = (statuses[status] ?? 0) + 1;
}

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const connections = Array.from({ length: options.connections }, () => new Connection());
await Promise.all(connections.map(({ ready }) => ready));
for (const connection of connections) connection.send();
await wait(options.warmupMs);
process.stderr.write('warm\n');
measuring = true;
const fromMs = Date.now();
const from = performance.now();
await wait(options.durationMs);
measuring = false;
const elapsedMs = performance.now() - from;
const toMs = Date.now();
process.stderr.write('done\n');
stopped = true;
await Promise.race([Promise.all(connections.map(({ ended }) => ended)), wait(2_000)]);

const ms = (percentile: number): number => histogram.getValueAtPercentile(percentile) / 1000;
const result: LoadResult = {
  statuses,
  elapsedMs,
  latency: { p50: ms(50), p90: ms(90), p99: ms(99), p999: ms(99.9), max: histogram.maxValue / 1000 },
  curve: [0, 10, 25, 50, 75, 90, 95, 97.5, 99, 99.5, 99.75, 99.9, 99.95, 99.99, 100].map((p) => [p, ms(p)] as const),
  fromMs,
  toMs,
};
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
