// What an operator changed: a line on standard error, and a row of the warehouse's table `ingest_audit`.
//
// Invariant: the row is there before the change begins, without a count; it gets its count when the change ends,
// however it ends. A row without a count is that of a program that was killed. Without its row nothing is changed.
import { printable } from '../process/printable.ts';
import { hostname, userInfo } from 'node:os';
import type { Outcome, Session } from './session.ts';
import { countText, timeText } from './text.ts';

const LINE_CHARACTERS_MAX = 400;

/** What a change counts: rows, entries or events, as the command says. */
export interface Tally {
  changed: number;
}

/** `what` is the selection as it was given. Rejects with WarehouseFailed where the change cannot be recorded. */
export async function audited(
  session: Pick<Session, 'warehouse' | 'tell' | 'clock' | 'random'>,
  command: string,
  what: string,
  change: (tally: Tally) => Promise<Outcome>,
): Promise<Outcome> {
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
