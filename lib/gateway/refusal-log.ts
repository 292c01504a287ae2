// Logs refused requests and failed handshakes at level `info`: one line per minute for each pair of producer and
// code, and one line per minute for all failed handshakes. No line contains a body.
//
// The first refusal of a pair is logged immediately. Later ones are counted and logged together at the end of each
// minute. A pair without a refusal for a minute is forgotten.
import type { ClientCertificate } from '../http/connection.ts';
import type { Clock, Timer } from '../process/clock.ts';
import type { Log } from '../process/log.ts';

const INTERVAL_MS = 60_000;
const PAIRS_MAX = 1_000;
/** Failures from further addresses are counted under `(others)`. */
const ADDRESSES_MAX = 1_000;
export const ADDRESSES_NAMED_MAX = 10;

const PROXY_HINT =
  'the balancers of INGEST_PROXY_FROM must send a PROXY protocol header, version 2; ' +
  'the stream module of nginx sends version 1';

export interface RefusedClient {
  readonly address: string;
  readonly clientCertificate: ClientCertificate | undefined;
}

export class RefusalLog {
  readonly #log: Log;
  /** The log line of each pair, with its latest client and the number of refusals that are not logged yet. */
  readonly #pairs = new Map<string, { count: number }>();
  readonly #timer: Timer;
  /** Failed handshakes that are not logged yet. */
  #reasons = new Map<string, number>();
  #addresses = new Map<string, number>();

  constructor(log: Log, clock: Clock) {
    this.#log = log;
    this.#timer = clock.every(INTERVAL_MS, () => this.#logAll());
  }

  refused(producer: string | undefined, status: number, code: string, client: RefusedClient): void {
    if (!this.#log.isLevelEnabled('info')) return;
    const key = `${producer ?? ''}\0${code}`;
    const pair = this.#pairs.get(key);
    if (pair === undefined && this.#pairs.size >= PAIRS_MAX && producer !== '(others)') {
      this.refused('(others)', status, code, client);
      return;
    }
    const line = { producer, ...clientFields(client, status), code, count: (pair?.count ?? 0) + 1 };
    this.#pairs.set(key, line);
    if (pair === undefined) this.#logPair(line);
  }

  handshakeFailed(reason: string, address: string): void {
    const isNew = !this.#addresses.has(address) && this.#addresses.size >= ADDRESSES_MAX;
    addOne(this.#reasons, reason);
    addOne(this.#addresses, isNew ? '(others)' : address);
  }

  /** Logs everything that is not logged yet. */
  close(): void {
    this.#timer.close();
    this.#logAll();
  }

  #logAll(): void {
    this.#logHandshakes();
    for (const [key, pair] of this.#pairs)
      if (pair.count === 0) this.#pairs.delete(key);
      else this.#logPair(pair);
  }

  #logPair(line: { count: number }): void {
    this.#log.info({ ...line }, 'requests refused');
    line.count = 0;
  }

  #logHandshakes(): void {
    if (this.#reasons.size === 0) return;
    const most = [...this.#addresses].sort(([, one], [, other]) => other - one).slice(0, ADDRESSES_NAMED_MAX);
    const fields = {
      reasons: Object.fromEntries(this.#reasons),
      addresses: this.#addresses.size,
      most: most.map(([address, count]) => ({ address, count })),
      ...(this.#reasons.has('proxy_header') ? { hint: PROXY_HINT } : {}),
    };
    this.#log.info(fields, 'TLS handshakes or connections failed');
    this.#reasons = new Map();
    this.#addresses = new Map();
  }
}

/** The authority that signed an unknown client's certificate can find it by the serial number. */
export function clientFields({ address, clientCertificate }: RefusedClient, status: number) {
  if (status !== 401 || clientCertificate === undefined) return { address };
  const { serialNumber, fingerprint256 } = clientCertificate.certificate;
  return { address, serial: serialNumber, fingerprint: fingerprint256 };
}

function addOne(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
