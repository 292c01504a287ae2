// A process for journal-crash.long.ts, which kills it. It sends events with new ids, and appends each id to a file as
// soon as the event is in the journal. Its arguments are the options as JSON, the file, and the number of events.
// With 0 events it only sends those that the journal already contains.
import { openSync, writeSync } from 'node:fs';
import { sendEvents, type JournalOptions } from '../../lib/send/client.ts';

const [options = '', notes = '', count = '0'] = process.argv.slice(2);
const noted = openSync(notes, 'a');

function* events(): Generator<{ id: string; type: string }> {
  for (let at = 0; at < Number(count); at += 1) yield { id: `journal-${process.pid}-${at}`, type: 'test.event' };
}

const onJournaled = ({ id }: { readonly id: string }): void => void writeSync(noted, `${id}\n`);
const parsed = JSON.parse(options) as JournalOptions<{ id: string; type: string }>;
for await (const { kind } of sendEvents(events(), { ...parsed, onJournaled }))
  if (kind !== 'accepted') throw new Error(`an event was ${kind}`);
