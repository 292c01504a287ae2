// What a member notes of the events that it is about to land: one text for each batch, which its next one replaces.
//
// Why: a member may die behind the warehouse's commit and before its acknowledgement, and its entries may be deleted
// before another one claims them. By the note that one finds the events' rows, and does not say that they were dropped.
//
// A note has id and entry of each event, by source and producer. Only consumers read it. A text that cannot be parsed
// counts as an empty note.
import { NOTES, type EntryName, type NotedEvent } from '../../ingest/queue.ts';

type Group = readonly [source: string, producer: string, entriesAndIds: string[]];

/** The keys of the notes of all members; `members` is the answer to XINFO CONSUMERS. */
export const noteKeys = (stream: string, members: readonly (readonly string[])[]): string[] =>
  members.flatMap((fields) => {
    const member = fields[fields.indexOf('name') + 1] ?? '';
    return Array.from({ length: NOTES }, (_, number) => `{${stream}}:landing:${member}:${number}`);
  });

export function noteText(events: readonly NotedEvent[]): string {
  const groups = new Map<string, Group>();
  for (const { source, producer, entry, id } of events) {
    const name = `${source}\n${producer}`;
    let group = groups.get(name);
    if (group === undefined) groups.set(name, (group = [source, producer, []]));
    group[2].push(entry, id);
  }
  return JSON.stringify([...groups.values()]);
}

/** Those of `entries` that the notes `texts` have, with their ids. */
export function notedEvents(texts: readonly unknown[], entries: readonly EntryName[]): NotedEvent[] {
  const wanted = new Set(entries.map(({ source, entry }) => `${source}/${entry}`));
  return texts
    .flatMap((text) => (typeof text === 'string' ? eventsOfNote(text) : []))
    .filter(({ source, entry }) => wanted.has(`${source}/${entry}`));
}

function eventsOfNote(text: string): NotedEvent[] {
  let groups: readonly Group[];
  try {
    groups = JSON.parse(text) as readonly Group[];
  } catch {
    return [];
  }
  return groups.flatMap(([source, producer, entriesAndIds]) =>
    Array.from({ length: entriesAndIds.length / 2 }, (_, at) => ({
      source,
      producer,
      entry: entriesAndIds[2 * at] ?? '',
      id: entriesAndIds[2 * at + 1] ?? '',
    })),
  );
}
