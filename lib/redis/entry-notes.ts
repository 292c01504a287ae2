// The further members of an entry, as accept.lua takes them: names and values by turns, each ended by a line feed.
import type { EventNotes } from '../ingest/queue.ts';

export const membersOf = (notes: EventNotes = {}): string =>
  Object.entries(notes)
    .map(([name, value]) => `${name}\n${value}\n`)
    .join('');

/** What `membersOf` was given; undefined where it was given nothing. */
export function notesOf(members: string): EventNotes | undefined {
  if (members === '') return undefined;
  const lines = members.split('\n');
  return Object.fromEntries(
    Array.from({ length: Math.floor(lines.length / 2) }, (_, at) => [lines[2 * at] ?? '', lines[2 * at + 1] ?? '']),
  );
}
