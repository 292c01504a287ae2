// The context of one ingest-admin command: queue, warehouse, output, questions, and the audit record.
import { hostname, userInfo } from 'node:os';
import type { Side } from './config.ts';
import type { QueueAdmin } from '../ingest/queue-admin.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import type { WarehouseAdmin } from '../ingest/warehouse-admin.ts';
import { printable } from '../process/printable.ts';
import { countText, timeText } from './terminal.ts';

/** Invalid arguments. The message names what was expected. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Everything answers, but not all of it does its work. The message says what does not. */
export class AttentionNeeded extends Error {}

type Check = (bodies: readonly Buffer[]) => Promise<readonly (readonly string[])[]>;

export interface Session extends ClockAndRandom {
  /** The configured sides. A command that needs a side that is not configured does not start. */
  readonly sides: readonly Side[];
  /** The k of INGEST_QUEUE_REPLICAS, if it is set here. */
  readonly replicasRequired?: number | undefined;
  readonly queue: QueueAdmin;
  readonly warehouse: WarehouseAdmin;
  readonly json: boolean;
  readonly print: (text: string) => void;
  /** Resolves once all output is written; with false if it cannot be, for example because its reader is gone. */
  readonly printed: () => Promise<boolean>;
  readonly tell: (text: string) => void;
  /** Reads a schema and returns its check. Rejects if the file is unusable. */
  readonly readSchema: (path: string) => Promise<Check>;
  readonly confirm: (question: string) => Promise<boolean>;
  /** Replaces the progress line on a terminal; an empty text removes it. */
  readonly progress: (text: string) => void;
  /** Aborted by the first signal. */
  readonly stopped: AbortSignal;
}

/** Prints a result: with --json the value, otherwise the text. */
export const printResult = ({ json, print }: Session, value: unknown, text: string): void =>
  print(json ? `${JSON.stringify(value)}\n` : text);

/** Returns the answers of the available streams, and the failures of the others. Rejects if no stream answers. */
export async function answersOf<T>(questions: readonly Promise<T>[]): Promise<{ answers: T[]; failures: unknown[] }> {
  const settled = await Promise.allSettled(questions);
  const found = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const failures = settled.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
  if (found.length === 0) throw failures[0];
  return { answers: found, failures };
}

export function* pages<T>(all: readonly T[], size: number): Generator<readonly T[], void> {
  for (let from = 0; from < all.length; from += size) yield all.slice(from, from + size);
}

/** Removes overwritten and deleted bodies from the warehouse's files, as far as it can. */
export async function eraseTraces({ warehouse, tell }: Session): Promise<void> {
  const rest = await warehouse.eraseTraces();
  if (rest !== undefined) tell(rest);
}

/** The rest of a long selection, which the line on standard error leaves out. */
const CUT = /(?<=^.{400}).+/su;

export interface Tally {
  changed: number;
}

/**
 * Runs a change and records it on standard error and in `ingest_audit`. `what` is the selection. The row is written
 * before the change, or this rejects with WarehouseFailed. Its count is added when the change finishes or fails, so a
 * row without a count means that the command was killed.
 */
export async function audited<T>(
  session: Session,
  command: string,
  what: string,
  change: (tally: Tally) => Promise<T>,
  atMs?: number,
): Promise<T> {
  const record = auditRecord(session, command, what, atMs);
  await session.warehouse.audit({ ...record, changed: undefined });
  const tally: Tally = { changed: 0 };
  try {
    return await change(tally);
  } finally {
    const line = printable(what.trimEnd().replaceAll('\n', ' ').replace(CUT, '…'));
    const done = `${countText(tally.changed)} changed`;
    session.tell(`audit: ${timeText(record.atMs)} ${printable(record.actor)} ${command} ${line}: ${done}`);
    await session.warehouse.audit({ ...record, changed: tally.changed });
  }
}

export const auditRecord = (session: Session, command: string, what: string, atMs = session.clock.epochMs()) => ({
  id: session.random.uuid(),
  atMs,
  actor: actor(),
  command,
  what,
});

function actor(): string {
  try {
    return `${userInfo().username}@${hostname()}`;
  } catch {
    // A user in a container may have no name.
    return `uid ${process.getuid?.()}@${hostname()}`;
  }
}
