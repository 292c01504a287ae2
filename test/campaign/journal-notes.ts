// The settings of the producer with a journal, and the producer's notes on events, which survive a kill.
import { appendFileSync, readFileSync } from 'node:fs';
import type { JournalOptions } from '../../lib/send/client.ts';

export interface JournaledSettings {
  readonly product: string;
  readonly notes: string;
  readonly first: number;
  readonly options: JournalOptions<string>;
}

/** Notes that the event may be in the journal (`begun`) or that it is (`held`). */
export const note = (path: string, what: 'begun' | 'held', number: number): void =>
  appendFileSync(path, `${what} ${number}\n`);

export function readNotes(path: string): ReadonlyMap<number, boolean> {
  const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean);
  return new Map(lines.map((line) => line.split(' ')).map(([what, number]) => [Number(number), what === 'held']));
}
