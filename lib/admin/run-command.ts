// What each command of ingest-admin runs; the exit code is that of the program.
import { failureOf, look, lookJson, lookText, watchStatus } from './status.ts';
import type { Command } from './command-line.ts';
import { eraseEvents, idsOf } from './erase.ts';
import { showEvent } from './find.ts';
import { pruneRows } from './prune.ts';
import { dropRows, listRows, showRow } from './quarantine.ts';
import { replayRows } from './replay.ts';
import { landAgain } from './land-again.ts';
import { OUTCOME, printJson, type Outcome, type Session } from './session.ts';
import { trySchema } from './schema-try.ts';

/** `rows` of the terminal, asked for each time; undefined where there is none. Rejects with what was away. */
export async function runCommand(session: Session, command: Command, rows: () => number | undefined): Promise<Outcome> {
  switch (command.kind) {
    case 'status':
      if (!command.watch) return showStatus(session);
      await watchStatus(session, rows);
      return OUTCOME.done;
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
      return eraseEvents(session, { ...command, ids: 'ids' in command ? command.ids : await idsOf(command.file) });
  }
}

/** Shows what answers, then rejects with what does not, also in part. */
async function showStatus(session: Session): Promise<Outcome> {
  const found = await look(session);
  if (session.json) printJson(session, lookJson(found));
  else session.print(lookText(session, found));
  const failure = failureOf(found);
  if (failure !== undefined) throw failure;
  return OUTCOME.done;
}
