// What each command of ingest-admin runs; the exit code is that of the program.
import { showStatus } from './status.ts';
import type { Command } from './command-line.ts';
import { eraseEvents, idsOf } from './erase.ts';
import { showEvent } from './find.ts';
import { pruneRows } from './prune.ts';
import { dropRows, listRows, showRow } from './quarantine.ts';
import { replayRows } from './replay.ts';
import { landAgain } from './land-again.ts';
import type { Outcome, Session } from './session.ts';
import { trySchema } from './schema-try.ts';

/** Rejects with what was away. */
export async function runCommand(session: Session, command: Command): Promise<Outcome> {
  switch (command.kind) {
    case 'status':
      return showStatus(session);
    case 'event':
      return showEvent(session, command.id);
    case 'list':
      return listRows(session, command.filter, command.limit);
    case 'show':
      return showRow(session, command.entry);
    case 'replay':
      return replayRows(session, command.selection);
    case 'drop':
      return dropRows(session, command.selection);
    case 'prune':
      return pruneRows(session, command.pruning);
    case 'try':
      return trySchema(session, command.path, command.sinceMs);
    case 'land-again':
      return landAgain(session, command.sinceMs);
    case 'erase':
      return eraseEvents(session, 'ids' in command ? command.ids : await idsOf(command.file));
  }
}
