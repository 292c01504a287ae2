// What a campaign and its producer with a journal tell each other: settings, and notes on events, which outlive a kill.
import { appendFileSync, readFileSync } from 'node:fs';
import type { JournalOptions } from '../../lib/send/send-events.ts';

export interface JournaledSettings {
  /** The folder that holds `lib`. */
  readonly product: string;
  /** The file that the process notes its events in. */
  readonly notes: string;
  /** The number of the first event. */
  readonly first: number;
  readonly options: JournalOptions<string>;
}

/** An event that is begun may be in the journal; one that is held is. */
export const note = (path: string, what: 'begun' | 'held', number: number): void =>
  appendFileSync(path, `${what} ${number}\n`);

/** The events that were begun, and whether the journal has held each. */
export function readNotes(path: string): ReadonlyMap<number, boolean> {
  const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean);
  return new Map(lines.map((line) => line.split(' ')).map(([what, number]) => [Number(number), what === 'held']));
}
