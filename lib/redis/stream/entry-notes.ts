// The further members of an entry, as accept.lua takes them: names and values by turns, each ended by a line feed.
import type { EventNotes } from '../../ingest/queue.ts';

export const membersOf = (notes: EventNotes = {}): string =>
  Object.entries(notes)
    .map(([name, value]) => `${name}\n${value}\n`)
    .join('');
