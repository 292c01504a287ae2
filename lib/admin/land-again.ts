// `land-again --since TIME`: repairs a warehouse that lost rows in a restore or a failover. Consumers read all
// entries since that time again. Existing rows are kept, including those in the quarantine.
import { audited, RESULT, printJson, printResult, type Result, type Session } from './session.ts';
import { counted, countText, timeText } from './terminal.ts';

export async function landAgain(session: Session, sinceMs: number): Promise<Result> {
  const { queue, json } = session;
  const since = timeText(sinceMs);
  let entries = 0;
  const onCounted = (some: number): void =>
    session.progress(`counting: ${counted((entries += some), 'entry', 'entries')}`);
  const counts = await Promise.all(queue.streams.map((stream) => stream.countRead(sinceMs, onCounted)));
  session.progress('');
  if (entries === 0) {
    session.tell(`the queue has no entry since ${since} that the consumers have read`);
    if (json) printJson(session, { entries, since });
    return RESULT.nothing;
  }
  const question = `Land ${counted(entries, 'entry', 'entries')} since ${since} again?`;
  if (!(await session.confirm(`${question} Existing rows stay as they are.`))) return RESULT.nothing;
  return audited(session, 'land-again', `since ${since}`, async (tally) => {
    await Promise.all(queue.streams.map((stream, at) => stream.landAgain(sinceMs, counts[at] ?? 0)));
    tally.changed = entries;
    const text = `consumers land ${countText(entries)} entries since ${since} again`;
    printResult(session, { entries, since }, `${text}; ingest-admin status shows the progress\n`);
    return RESULT.done;
  });
}
