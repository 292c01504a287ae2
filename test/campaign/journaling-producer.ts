// journaled-load.ts runs this program. It sends new events with a journal until it is killed, and notes each event.
// The first argument is the settings as JSON. With `drain` as the second argument, the program sends what is in the
// journal and exits.
import type * as Library from '../../lib/send/client.ts';
import { bodyOf } from './event.ts';
import { note, readNotes, type JournaledSettings } from './journal-notes.ts';

const [settings = '', drain] = process.argv.slice(2);
const { product, notes, first, options } = JSON.parse(settings) as JournaledSettings;
const library = `${product}/lib/send/client.ts`;
const { sendEvents } = (await import(library)) as typeof Library;
const numbers = new Map<string, number>();

function* events(): Generator<string> {
  if (drain !== undefined) return;
  for (let number = Math.max(first - 1, ...readNotes(notes).keys()) + 1; ; number += 1) {
    note(notes, 'begun', number);
    const body = bodyOf(number, 0);
    numbers.set(body, number);
    yield body;
  }
}

function onJournaled(body: string): void {
  note(notes, 'held', numbers.get(body) ?? Number.NaN);
  numbers.delete(body);
}

for await (const result of sendEvents(events(), { ...options, onJournaled }))
  if (result.kind !== 'accepted') throw new Error(`an event was ${result.kind}: ${JSON.stringify(result)}`);
