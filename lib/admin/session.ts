// What every command of ingest-admin is given: the queue and the warehouse, where its output goes, and how it asks.
import type { QueueAdmin } from '../ingest/queue-admin.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import type { WarehouseAdmin } from '../ingest/warehouse-admin.ts';

/** How a command ended; the program's exit code. `nothing`: found nothing, or not all was done. */
export const OUTCOME = { done: 0, nothing: 1 } as const;
export type Outcome = (typeof OUTCOME)[keyof typeof OUTCOME];

/** How far a change is. */
export interface Progress {
  update(done: number, of: number): void;
  stop(): void;
}

export interface Session extends ClockAndRandom {
  readonly queue: QueueAdmin;
  readonly warehouse: WarehouseAdmin;
  /** Output for programs instead of people. */
  readonly json: boolean;
  /** Lines on standard output. */
  readonly print: (text: string) => void;
  /** Resolves once what was printed is written: between parts of a long output, so that it is not held in memory. */
  readonly printed: () => Promise<void>;
  /** Words on standard error. */
  readonly tell: (text: string) => void;
  /** The first problems of a body by the schema in a file. Rejects where the file cannot be used. */
  readonly readSchema: (path: string) => Promise<(body: Buffer) => readonly string[]>;
  /** Asks before a change; true where it may be made. */
  readonly confirm: (question: string) => Promise<boolean>;
  readonly progress: () => Progress;
  /** Aborts at the first signal. */
  readonly stopped: AbortSignal;
}

/** The one JSON value of a command. */
export const printJson = ({ print }: Pick<Session, 'print'>, value: unknown): void =>
  print(`${JSON.stringify(value)}\n`);
