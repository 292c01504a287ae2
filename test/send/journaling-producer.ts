// A process for journal-crash.long.ts: sends events with new ids until it is killed, and notes each id when the journal
// has its event. Arguments: the options as JSON, the file for ids, and the number of events (0: those of the journal).
import { openSync, writeSync } from 'node:fs';
import { sendEvents, type JournalOptions } from '../../lib/send/send-events.ts';

const [options = '', notes = '', count = '0'] = process.argv.slice(2);
const noted = openSync(notes, 'a');

function* events(): Generator<{ id: string; type: string }> {
  for (let at = 0; at < Number(count); at += 1) yield { id: `journal-${process.pid}-${at}`, type: 'test.event' };
}

const onJournaled = ({ id }: { readonly id: string }): void => void writeSync(noted, `${id}\n`);
const parsed = JSON.parse(options) as JournalOptions<{ id: string; type: string }>;
for await (const { kind } of sendEvents(events(), { ...parsed, onJournaled }))
  if (kind !== 'accepted') throw new Error(`an event was ${kind}`);
