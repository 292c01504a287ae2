// The session of a command of ingest-admin: its queue and warehouse, its output, its questions, and the record of what
// it changed.
import { hostname, userInfo } from 'node:os';
import type { QueueAdmin } from '../ingest/queue-admin.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import type { WarehouseAdmin } from '../ingest/warehouse-admin.ts';
import { printable } from '../process/printable.ts';
import { countText, timeText } from './terminal.ts';

/** The program's exit code. `nothing`: nothing was found, or not all was done. */
export const RESULT = { done: 0, nothing: 1 } as const;
export type Result = (typeof RESULT)[keyof typeof RESULT];

/** The arguments are not a command of this program. The message says what was expected. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

export interface Session extends ClockAndRandom {
  readonly queue: QueueAdmin;
  readonly warehouse: WarehouseAdmin;
  /** Output for programs instead of people. */
  readonly json: boolean;
  /** Writes to standard output. */
  readonly print: (text: string) => void;
  /** Resolves once the output so far is written, so that a long list is not held in memory. */
  readonly printed: () => Promise<void>;
  /** Writes a line to standard error. */
  readonly tell: (text: string) => void;
  /** Reads a schema and returns its check, which returns the first problems of a body. Rejects for an unusable file. */
  readonly readSchema: (path: string) => Promise<(body: Buffer) => readonly string[]>;
  /** Appends ids of erased events, each on a line, to the file that `erase --file` reads again after a restore. */
  readonly recordErased: (ids: readonly string[]) => Promise<void>;
  /** Asks before a change; true if the operator agrees. */
  readonly confirm: (question: string) => Promise<boolean>;
  /** Replaces the progress line on a terminal; an empty text removes it. */
  readonly progress: (text: string) => void;
  /** Aborts at the first signal. */
  readonly stopped: AbortSignal;
}

/** The one JSON value of a command. */
export const printJson = ({ print }: Pick<Session, 'print'>, value: unknown): void =>
  print(`${JSON.stringify(value)}\n`);

const LINE_CHARACTERS_MAX = 400;

/** Rows, entries or events that a command changed. */
export interface Tally {
  changed: number;
}

/**
 * Runs a change and records it: a line on standard error, and a row of the warehouse's table `ingest_audit`. `what` is
 * the selection as given. Rejects with WarehouseFailed if the change cannot be recorded.
 *
 * Invariant: the row is written before the change begins, without a count; the count is added when the change ends or
 * fails. A row without a count belongs to a program that was killed.
 */
export async function audited(
  session: Pick<Session, 'warehouse' | 'tell' | 'clock' | 'random'>,
  command: string,
  what: string,
  change: (tally: Tally) => Promise<Result>,
): Promise<Result> {
  const record = { id: session.random.uuid(), atMs: session.clock.epochMs(), actor: actor(), command, what };
  await session.warehouse.audit({ ...record, changed: undefined });
  const tally: Tally = { changed: 0 };
  try {
    return await change(tally);
  } finally {
    const shown = what.length > LINE_CHARACTERS_MAX ? `${what.slice(0, LINE_CHARACTERS_MAX)}…` : what;
    session.tell(
      `audit: ${timeText(record.atMs)} ${printable(record.actor)} ${command} ${printable(shown)}: ` +
        `${countText(tally.changed)} changed`,
    );
    await session.warehouse.audit({ ...record, changed: tally.changed });
  }
}

function actor(): string {
  try {
    return `${userInfo().username}@${hostname()}`;
  } catch {
    // In a container a user may have no name.
    return `uid ${process.getuid?.()}@${hostname()}`;
  }
}
