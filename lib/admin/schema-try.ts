// `schema try`: finds landed events that a schema would refuse, and quarantined events that it would let land, before
// the schema is copied into INGEST_SCHEMAS_DIR.
import { basename } from 'node:path';
import { isErased, namesIn } from '../ingest/erased.ts';
import { printable } from '../process/printable.ts';
import { printResult, type Session } from './session.ts';
import { counted, countText, timeText } from './terminal.ts';

const SHOWN_MAX = 10;
const ROWS_PER_READ = 32;

type Check = Awaited<ReturnType<Session['readSchema']>>;

interface Tried {
  events: number;
  refused: number;
  readonly first: { readonly id: string; readonly problems: readonly string[] }[];
}

export async function trySchema(session: Session, { path, sinceMs }: { path: string; sinceMs: number }) {
  const check = await session.readSchema(path);
  const type = basename(path, '.json');
  const landed: Tried = { events: 0, refused: 0, first: [] };
  for await (const page of session.warehouse.landedSince(type, sinceMs)) {
    await tryEvents(check, landed, page);
    if (session.stopped.aborted) break;
  }
  const quarantined = await tryQuarantined(session, check, type, sinceMs);
  const since = timeText(sinceMs);
  const { events, refused, first } = landed;
  const wouldLand = quarantined.events - quarantined.refused;
  const lines = [
    `${countText(refused)} of ${counted(events, 'event')} of ${type} since ${since} would be refused`,
    ...first.map(shown),
    ...(quarantined.events === 0
      ? []
      : [
          `${countText(wouldLand)} of ${counted(quarantined.events, 'event')} quarantined by a schema would land`,
          ...quarantined.first.map(shown),
        ]),
  ];
  const result = { type, since, events, refused, first, quarantined: quarantined.events, wouldLand };
  printResult(session, result, `${lines.join('\n')}\n`);
  if (events === 0) session.tell(`no event of the type ${type} has landed since ${since}`);
  if (session.stopped.aborted) session.tell('interrupted: newer events were not checked');
  return events + quarantined.events > 0 && refused === 0 && !session.stopped.aborted;
}

const shown = ({ id, problems }: Tried['first'][number]): string => `  ${printable(id)}  ${problems.join('; ')}`;

async function tryEvents(check: Check, tried: Tried, page: readonly { readonly id: string; readonly body: string }[]) {
  const whole = page.filter(({ body }) => !isErased(body));
  const problems = await check(whole.map(({ body }) => Buffer.from(body)));
  tried.events += whole.length;
  for (const [at, { id }] of whole.entries()) {
    const reasons = problems[at] ?? [];
    if (reasons.length === 0) continue;
    tried.refused += 1;
    if (tried.first.length < SHOWN_MAX) tried.first.push({ id, problems: reasons });
  }
}

/** Tries the events for which a corrected schema is meant. */
async function tryQuarantined(session: Session, check: Check, type: string, sinceMs: number): Promise<Tried> {
  const { warehouse, stopped } = session;
  const tried: Tried = { events: 0, refused: 0, first: [] };
  for await (const page of warehouse.quarantineList({ reason: 'schema', sinceMs }))
    for (let at = 0; at < page.length && !stopped.aborted; at += ROWS_PER_READ) {
      const read = page.slice(at, at + ROWS_PER_READ).map(({ entry }) => warehouse.quarantineRow(entry));
      const rows = (await Promise.all(read)).flatMap((row) => (row === undefined ? [] : [row]));
      const events = rows.map(({ id = '', body }) => ({ id, body: String(body) }));
      await tryEvents(
        check,
        tried,
        events.filter(({ body }) => namesIn(Buffer.from(body)).type === type),
      );
    }
  return tried;
}
