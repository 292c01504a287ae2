// Gauges for the queue: unlanded events, sizes and memory. Both gateways and consumers export them, so that the
// alerts work even if one of the two programs is down.
//
// The age of the oldest event is the measured one. Without a fresh reading, the queue is unavailable, and the age grows
// with the clock. The sizes then have no samples, because an alert uses them to predict when the memory will be full,
// and old values would mislead it.
import type { Registry } from 'prom-client';
import type { Clock } from '../process/clock.ts';
import { Gauge, type Labels, type Sample } from './instruments.ts';

const FRESH_MS = 15_000;

/** The state of one partition of the queue. */
export interface StreamReport {
  /** `undefined` if nobody has counted the events. The gauge then has no sample. */
  readonly unlanded: number | undefined;
  /** The age of the oldest unlanded event in milliseconds, or 0 if there is none. */
  readonly oldestMs: number;
  readonly events: number;
  /** `undefined` if the server does not report its memory. */
  readonly memoryBytes: number | undefined;
  /** 0 if the server has no limit. */
  readonly memoryLimitBytes: number | undefined;
  readonly clockSkewMs?: number;
  readonly acknowledged?: number | undefined;
  readonly consumers?: number | undefined;
  readonly replicas?: number | undefined;
}

type Reading = StreamReport & { readonly readAtMs: number };
type ValueOf = (reading: Reading, ageMs: number) => number | undefined;

const ifFresh =
  (value: ValueOf): ValueOf =>
  (reading, ageMs) =>
    ageMs < FRESH_MS ? value(reading, ageMs) : undefined;

const oldestSeconds: ValueOf = ({ unlanded, oldestMs }, ageMs) =>
  unlanded === 0 ? 0 : (oldestMs + (ageMs < FRESH_MS ? 0 : ageMs)) / 1000;

/** Gauges with a sample for each partition. */
const GAUGES: readonly (readonly [name: string, help: string, value: ValueOf])[] = [
  ['lag_events', 'Events of the queue that have not landed yet.', ({ unlanded }) => unlanded],
  ['oldest_unlanded_seconds', 'Age of the oldest event that has not landed yet.', oldestSeconds],
  ['acknowledged_events', 'Entries that the group has acknowledged.', ifFresh(({ acknowledged }) => acknowledged)],
  ['consumers', 'Consumers with a recent heartbeat.', ifFresh(({ consumers }) => consumers)],
  ['replicas', "Connected replicas of the queue's server.", ifFresh(({ replicas }) => replicas)],
  ['report_age_seconds', 'Time since the queue was read.', ifFresh((_, ageMs) => ageMs / 1000)],
];

export class QueueGauges {
  readonly #readings = new Map<string, Reading>();
  readonly #clock: Clock;

  constructor(registry: Registry, clock: Clock) {
    this.#clock = clock;
    for (const [name, help, value] of GAUGES)
      new Gauge(registry, `ingest_queue_${name}`, help).readEach(() => this.#ofEach(value));
    const gauge = (name: string, help: string, value: (size: StreamReport) => number | undefined): void =>
      new Gauge(registry, name, help).readEach(() => sample(this.size && value(this.size)));
    gauge('ingest_queue_events', 'Events that the queue holds, landed or not.', ({ events }) => events);
    gauge('ingest_queue_memory_bytes', "Memory that the queue's server uses.", ({ memoryBytes }) => memoryBytes);
    const limitHelp = "Memory at which the queue's server begins to refuse events; 0 if it has no limit.";
    gauge('ingest_queue_memory_limit_bytes', limitHelp, ({ memoryLimitBytes }) => memoryLimitBytes);
    const skewHelp = "Difference between this process's clock and the queue's.";
    gauge('ingest_clock_skew_seconds', skewHelp, ({ clockSkewMs }) => clockSkewMs && this.clockSkewSeconds);
  }

  /** The largest difference between this process's clock and the clock of a queue server. */
  get clockSkewSeconds(): number {
    return Math.max(0, ...[...this.#readings.values()].map(({ clockSkewMs = 0 }) => clockSkewMs)) / 1000;
  }

  reported(part: string, report: StreamReport): void {
    this.#readings.set(part, { ...report, readAtMs: this.#clock.ms() });
  }

  /** The size of the whole queue, with the memory of its fullest server. `undefined` if there is no fresh reading. */
  get size(): StreamReport | undefined {
    const now = this.#clock.ms();
    const fresh = [...this.#readings.values()].filter(({ readAtMs }) => now - readAtMs < FRESH_MS);
    const [first] = fresh;
    if (first === undefined) return undefined;
    const fullest = fresh.reduce((one, other) => (share(other) > share(one) ? other : one), first);
    return { ...fullest, events: fresh.reduce((sum, { events }) => sum + events, 0) };
  }

  #ofEach(value: ValueOf): Sample[] {
    const isOne = this.#readings.size === 1;
    return [...this.#readings].flatMap(([part, reading]) =>
      sample(value(reading, this.#clock.ms() - reading.readAtMs), isOne ? {} : { partition: part }),
    );
  }
}

const share = ({ memoryBytes = 0, memoryLimitBytes = 0 }: StreamReport): number =>
  memoryLimitBytes > 0 ? memoryBytes / memoryLimitBytes : memoryBytes / Number.MAX_SAFE_INTEGER;

const sample = (value: number | undefined, labels: Labels = {}): Sample[] =>
  value === undefined ? [] : [{ labels, value }];
