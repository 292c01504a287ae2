// `schema try`: finds landed events that a schema would refuse, before the schema is copied into INGEST_SCHEMAS_DIR.
import { basename } from 'node:path';
import { isErased } from '../ingest/erased.ts';
import { printable } from '../process/printable.ts';
import { printResult, type Session } from './session.ts';
import { counted, countText, timeText } from './terminal.ts';

const SHOWN_MAX = 10;

export async function trySchema(session: Session, { path, sinceMs }: { path: string; sinceMs: number }) {
  const check = await session.readSchema(path);
  const type = basename(path, '.json');
  const first: { readonly id: string; readonly problems: readonly string[] }[] = [];
  let [events, refused] = [0, 0];
  for await (const page of session.warehouse.landedSince(type, sinceMs)) {
    const kept = page.filter(({ body }) => !isErased(body));
    const problems = await check(kept.map(({ body }) => Buffer.from(body)));
    events += kept.length;
    for (const [at, { id }] of kept.entries()) {
      const found = problems[at] ?? [];
      if (found.length === 0) continue;
      refused += 1;
      if (first.length < SHOWN_MAX) first.push({ id, problems: found });
    }
    if (session.stopped.aborted) break;
  }
  const since = timeText(sinceMs);
  const would = `${countText(refused)} of ${counted(events, 'event')} of ${type} since ${since} would be refused`;
  const lines = first.map(({ id, problems }) => `  ${printable(id)}  ${problems.join('; ')}`);
  printResult(session, { type, since, events, refused, first }, `${[would, ...lines].join('\n')}\n`);
  if (events === 0) session.tell(`no event of the type ${type} has landed since ${since}`);
  if (session.stopped.aborted) session.tell('interrupted: newer events were not checked');
  return events > 0 && refused === 0 && !session.stopped.aborted;
}
