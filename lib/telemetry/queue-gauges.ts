// The gauges of the queue itself: how far landing is behind, and how much the queue holds and may hold. Gateways and
// consumers both have them, so that no fault of one kind of program silences the alerts on them.
//
// A reading that is not fresh any more (the queue is unavailable): the age of the oldest event grows with the clock, so
// that it never looks better than it is; sizes have no sample, because no value is better than an old one for an alert
// that computes how many hours are left.
import type { Registry } from 'prom-client';
import type { Clock } from '../process/clock.ts';
import { Gauge, type Labels } from './instruments.ts';

/** Older readings of sizes are not shown. */
const FRESH_MS = 15_000;

/** What a look at one part of the queue saw. */
export interface Look {
  /** Events that have not landed. */
  readonly unlanded: number;
  /** Age of the oldest of them in milliseconds; 0 when there is none. */
  readonly oldestMs: number;
  readonly events: number;
  /** Of the part's server, in bytes; undefined where it does not tell. */
  readonly memoryBytes: number | undefined;
  /** 0: it has no limit of its own. */
  readonly memoryLimitBytes: number | undefined;
  readonly clockSkewMs?: number;
}

type Reading = Look & { readonly readAtMs: number };

export class QueueGauges {
  readonly #readings = new Map<string, Reading>();
  readonly #clock: Clock;
  readonly #label: string | undefined;

  /** `label` of each part; by default `partition`, and none where there is only one. */
  constructor(registry: Registry, clock: Clock, label?: string) {
    this.#clock = clock;
    this.#label = label;
    const gauge = (name: string, help: string): Gauge => new Gauge(registry, name, help);
    gauge('ingest_queue_lag_events', 'Events of the queue that have not landed yet.').readEach(() =>
      this.#ofEach(({ unlanded }) => unlanded),
    );
    gauge('ingest_queue_oldest_unlanded_seconds', 'Age of the oldest event that has not landed yet.').readEach(() =>
      this.#ofEach(this.#oldestSeconds),
    );
    gauge('ingest_clock_skew_seconds', "How far this process's clock and the queue's are apart.").readEach(() =>
      sample(this.size?.clockSkewMs === undefined ? undefined : this.clockSkewSeconds),
    );
    gauge('ingest_queue_events', 'Events that the queue holds, landed or not.').readEach(() =>
      sample(this.size?.events),
    );
    gauge('ingest_queue_memory_bytes', "Memory that the queue's server uses.").readEach(() =>
      sample(this.size?.memoryBytes),
    );
    gauge(
      'ingest_queue_memory_limit_bytes',
      "Memory at which the queue's server begins to refuse events; 0 where it has no limit of its own.",
    ).readEach(() => sample(this.size?.memoryLimitBytes));
  }

  /** How far this process's clock and the queue's are apart, in seconds, by the last look. */
  get clockSkewSeconds(): number {
    return Math.max(0, ...[...this.#readings.values()].map(({ clockSkewMs = 0 }) => clockSkewMs)) / 1000;
  }

  /** Takes what was seen of a part of the queue just now. */
  looked(part: string, look: Look): void {
    this.#readings.set(part, { ...look, readAtMs: this.#clock.ms() });
  }

  /** Of the whole queue; memory is that of its fullest server. Undefined while no reading is fresh. */
  get size(): Pick<Look, 'events' | 'memoryBytes' | 'memoryLimitBytes' | 'clockSkewMs'> | undefined {
    const now = this.#clock.ms();
    const fresh = [...this.#readings.values()].filter(({ readAtMs }) => now - readAtMs < FRESH_MS);
    const [first] = fresh;
    if (first === undefined) return undefined;
    const fullest = fresh.reduce((one, other) => (share(other) > share(one) ? other : one), first);
    return { ...fullest, events: fresh.reduce((sum, { events }) => sum + events, 0) };
  }

  readonly #oldestSeconds = ({ unlanded, oldestMs, readAtMs }: Reading): number =>
    unlanded === 0 ? 0 : (oldestMs + this.#clock.ms() - readAtMs) / 1000;

  #ofEach(value: (reading: Reading) => number): { labels: Labels; value: number }[] {
    const label = this.#label ?? (this.#readings.size === 1 ? undefined : 'partition');
    return [...this.#readings].map(([part, reading]) => ({
      labels: label === undefined ? {} : { [label]: part },
      value: value(reading),
    }));
  }
}

const share = ({ memoryBytes = 0, memoryLimitBytes = 0 }: Look): number =>
  memoryLimitBytes > 0 ? memoryBytes / memoryLimitBytes : memoryBytes / Number.MAX_SAFE_INTEGER;

const sample = (value: number | undefined): { labels: Labels; value: number }[] =>
  value === undefined ? [] : [{ labels: {}, value }];
