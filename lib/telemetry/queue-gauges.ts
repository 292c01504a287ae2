// Gauges for the queue: unlanded events, sizes and memory. Both gateways and consumers export them, so that the
// alerts work even if one of the two programs is down.
//
// The age of the oldest event is the measured one. Without a fresh reading, the queue is unavailable, and the age grows
// with the clock. The sizes then have no samples, because an alert uses them to predict when the memory will be full,
// and old values would mislead it.
import type { Registry } from 'prom-client';
import type { Clock } from '../process/clock.ts';
import { Gauge, type Labels } from './instruments.ts';

const FRESH_MS = 15_000;

/** The state of one partition of the queue. */
export interface StreamReport {
  readonly unlanded: number;
  /** The age of the oldest unlanded event in milliseconds, or 0 if there is none. */
  readonly oldestMs: number;
  readonly events: number;
  /** `undefined` if the server does not report its memory. */
  readonly memoryBytes: number | undefined;
  /** 0 if the server has no limit. */
  readonly memoryLimitBytes: number | undefined;
  readonly clockSkewMs?: number;
  /** The number of entries that the consumer group has acknowledged since the stream was created. */
  readonly acknowledged?: number | undefined;
  /** Consumers with a recent heartbeat. */
  readonly consumers?: number | undefined;
  /** Connected replicas of the server. */
  readonly replicas?: number | undefined;
}

type Reading = StreamReport & { readonly readAtMs: number };

export class QueueGauges {
  readonly #readings = new Map<string, Reading>();
  readonly #clock: Clock;

  constructor(registry: Registry, clock: Clock) {
    this.#clock = clock;
    const gauge = (name: string, help: string): Gauge => new Gauge(registry, name, help);
    gauge('ingest_queue_lag_events', 'Events of the queue that have not landed yet.').readEach(() =>
      this.#ofEach(({ unlanded }) => unlanded),
    );
    gauge('ingest_queue_oldest_unlanded_seconds', 'Age of the oldest event that has not landed yet.').readEach(() =>
      this.#ofEach(this.#oldestSeconds),
    );
    gauge('ingest_queue_acknowledged_events', 'Entries that the consumer group has acknowledged.').readEach(() =>
      this.#ofFresh(({ acknowledged }) => acknowledged),
    );
    gauge('ingest_queue_consumers', 'Consumers with a recent heartbeat.').readEach(() =>
      this.#ofFresh(({ consumers }) => consumers),
    );
    gauge('ingest_queue_replicas', "Connected replicas of the queue's server.").readEach(() =>
      this.#ofFresh(({ replicas }) => replicas),
    );
    gauge('ingest_queue_report_age_seconds', 'Time since the queue was read.').readEach(() =>
      this.#ofFresh(({ readAtMs }) => (this.#clock.ms() - readAtMs) / 1000),
    );
    gauge('ingest_clock_skew_seconds', "Difference between this process's clock and the queue's.").readEach(() =>
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
      "Memory at which the queue's server begins to refuse events; 0 if it has no limit.",
    ).readEach(() => sample(this.size?.memoryLimitBytes));
  }

  /** The largest difference between this process's clock and the clock of a queue server. */
  get clockSkewSeconds(): number {
    return Math.max(0, ...[...this.#readings.values()].map(({ clockSkewMs = 0 }) => clockSkewMs)) / 1000;
  }

  reported(part: string, report: StreamReport): void {
    this.#readings.set(part, { ...report, readAtMs: this.#clock.ms() });
  }

  /** The size of the whole queue, with the memory of its fullest server. `undefined` if there is no fresh reading. */
  get size(): Pick<StreamReport, 'events' | 'memoryBytes' | 'memoryLimitBytes' | 'clockSkewMs'> | undefined {
    const fresh = [...this.#readings.values()].filter((reading) => this.#isFresh(reading));
    const [first] = fresh;
    if (first === undefined) return undefined;
    const fullest = fresh.reduce((one, other) => (share(other) > share(one) ? other : one), first);
    return { ...fullest, events: fresh.reduce((sum, { events }) => sum + events, 0) };
  }

  readonly #isFresh = ({ readAtMs }: Reading): boolean => this.#clock.ms() - readAtMs < FRESH_MS;

  readonly #oldestSeconds = (reading: Reading): number => {
    if (reading.unlanded === 0) return 0;
    return (reading.oldestMs + (this.#isFresh(reading) ? 0 : this.#clock.ms() - reading.readAtMs)) / 1000;
  };

  #ofFresh(value: (reading: Reading) => number | undefined): Sampled[] {
    return this.#ofEach((reading) => (this.#isFresh(reading) ? value(reading) : undefined));
  }

  #ofEach(value: (reading: Reading) => number | undefined): Sampled[] {
    const isOne = this.#readings.size === 1;
    return [...this.#readings].flatMap(([part, reading]) => sample(value(reading), isOne ? {} : { partition: part }));
  }
}

const share = ({ memoryBytes = 0, memoryLimitBytes = 0 }: StreamReport): number =>
  memoryLimitBytes > 0 ? memoryBytes / memoryLimitBytes : memoryBytes / Number.MAX_SAFE_INTEGER;

interface Sampled {
  readonly labels: Labels;
  readonly value: number;
}

const sample = (value: number | undefined, labels: Labels = {}): Sampled[] =>
  value === undefined ? [] : [{ labels, value }];
