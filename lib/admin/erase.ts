// `erase ID`: overwrites what is left of an event, wherever it stands, so that only its id and type remain.
//
// Order: the warehouse gets the erased row first, so that a consumer that is frozen with the event in hand finds the id
// taken; then the queue, entry by entry, each as one atomic step (lib/redis/erase.lua); then what consumers have
// written meanwhile: the row and the quarantine. Each step may be repeated, so the command is run again where it was
// cut short.
//
// The whole queue is read: entries past the id index, replays and those of other hands are in no index.
//
// What it does not reach: backups, the append-only file before its next rewrite, PostgreSQL's dead rows before VACUUM,
// and other groups that have read the queue.
import { erasedBody, isErased, namesIn } from '../ingest/erased.ts';
import { parseEvent } from '../ingest/event.ts';
import type { QueuedCopy } from '../ingest/queue-admin.ts';
import { pause } from '../process/backoff.ts';
import { known } from './find.ts';
import { OUTCOME, printJson, type Outcome, type Session } from './session.ts';
import { counted, printable } from './text.ts';

/** How long a consumer may hold an entry before this gives up: longer than another one takes to claim it. */
const HELD_MS = 30_000;
const POLL_MS = 100;

export async function eraseEvent(session: Session, id: string): Promise<Outcome> {
  const { landed, quarantined } = await known(session, id);
  const copies = await copiesOnQueue(session, id);
  const rows = quarantined.filter(({ body }) => !isErased(body.toString('utf8')));
  const row = landed !== undefined && !isErased(landed.body) ? landed : undefined;
  if (copies.length + rows.length === 0 && row === undefined) {
    const erased = landed !== undefined || quarantined.length > 0;
    session.tell(erased ? 'the event is erased already' : 'no event with this id is there');
    if (session.json) printJson(session, { queue: 0, warehouse: 0, quarantine: 0, erased });
    return erased ? OUTCOME.done : OUTCOME.nothing;
  }
  const producers = [...copies, ...rows, ...(row === undefined ? [] : [row])].map(
    ({ producer }) => producer ?? '(none)',
  );
  const places =
    `${counted(copies.length, 'entry', 'entries')} on the queue, ${counted(row === undefined ? 0 : 1, 'row')} in the warehouse, ` +
    `${counted(rows.length, 'row')} in the quarantine; producer ${[...new Set(producers)].map(printable).join(', ')}`;
  if (!(await session.confirm(`Erase this event for good (${places})?`))) return OUTCOME.nothing;
  return eraseEverywhere(session, id, copies);
}

async function eraseEverywhere(session: Session, id: string, copies: readonly QueuedCopy[]): Promise<Outcome> {
  const { warehouse } = session;
  let held = 0;
  for (const copy of copies) {
    const type = namesIn(copy.body).type;
    await land(session, id, copy);
    if (!(await eraseCopy(session, copy, id, erasedBody(id, type)))) held += 1;
  }
  const landed = await warehouse.landed(id);
  if (landed !== undefined) await warehouse.overwriteLanded(id, erasedBody(id, landed.type));
  const quarantined = await warehouse.quarantineOf(id);
  for (const { entry, body } of quarantined)
    if (!isErased(body.toString('utf8')))
      await warehouse.overwriteQuarantined(entry, erasedBody(id, namesIn(body).type));

  const done = { queue: copies.length - held, warehouse: landed === undefined ? 0 : 1, quarantine: quarantined.length };
  if (session.json) printJson(session, { ...done, held });
  else
    session.print(
      `erased: ${counted(done.queue, 'entry', 'entries')} on the queue, ${counted(done.warehouse, 'row')} in the warehouse, ` +
        `${counted(done.quarantine, 'row')} in the quarantine\n`,
    );
  if (held === 0) return OUTCOME.done;
  session.tell(`not done: a consumer holds ${counted(held, 'entry', 'entries')}; run again when it has landed them`);
  return OUTCOME.nothing;
}

async function copiesOnQueue(session: Session, id: string): Promise<QueuedCopy[]> {
  const progress = session.progress();
  const copies: QueuedCopy[] = [];
  for await (const copy of session.queue.scan(id, (looked, of) => progress.update(looked, of)))
    if (!isErased(copy.body.toString('utf8'))) copies.push(copy);
  progress.stop();
  return copies;
}

/** Makes the erased row of an event that may not have landed yet. What is no event will not land. */
async function land({ warehouse }: Session, id: string, { producer, body, acceptedAtMs }: QueuedCopy): Promise<void> {
  const event = parseEvent(body);
  if (!event.valid || producer === undefined || producer.includes('\0')) return;
  const erased = Buffer.from(erasedBody(id, event.type));
  await warehouse.land({ id, type: event.type, producer, body: erased, acceptedAtMs });
}

/** False where a consumer holds the entry, and does not let go in time. */
async function eraseCopy({ queue, stopped }: Session, copy: QueuedCopy, id: string, body: string): Promise<boolean> {
  const deadline = performance.now() + HELD_MS;
  for (;;) {
    if ((await queue.erase(copy, id, body)) !== 'held') return true;
    if (stopped.aborted || performance.now() > deadline) return false;
    await pause(POLL_MS, stopped);
  }
}
