// Settings of the producer with a journal, and its notes on events, which survive a kill.
import { appendFileSync, readFileSync } from 'node:fs';
import type { JournalOptions } from '../../lib/send/send-events.ts';

export interface JournaledSettings {
  readonly product: string;
  readonly notes: string;
  readonly first: number;
  readonly options: JournalOptions<string>;
}

/** `begun`: the event may be in the journal. `held`: it is. */
export const note = (path: string, what: 'begun' | 'held', number: number): void =>
  appendFileSync(path, `${what} ${number}\n`);

/** For each event that was begun: whether the journal held it. */
export function readNotes(path: string): ReadonlyMap<number, boolean> {
  const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean);
  return new Map(lines.map((line) => line.split(' ')).map(([what, number]) => [Number(number), what === 'held']));
}
