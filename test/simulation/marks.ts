// Counts how often runs reached each fault and each important branch.
import { KINDS } from './faults.ts';

const MARKS = [
  ...KINDS,
  'a command never reached the server',
  'an answer was lost after its effect',
  'the server lost a tail with an accepted event',
  'a promoted server lacked a tail with an accepted event',
  'a gateway died with events in flight',
  'an event was accepted',
  'an event was repeated',
  'an event was repeated with another body',
  "another producer's id was refused",
  'an event was refused and sent again',
  'two events of one call had one id',
  'one call carried several events',
  'an entry was taken over',
  'an entry was deleted by hand',
  'an entry that a dead member held had vanished',
  'entries were read again after a lost answer',
  'a commit was unknown',
  'the warehouse was away',
  'the warehouse was slow',
  'a batch was refused for what it holds',
  'an event went to quarantine',
  'an operator put an event back on the queue',
  'the row of a replayed event was removed',
  'an operator erased an event',
  'an operator dropped quarantine rows',
  'an operator pruned old rows',
  'an operator landed what is missing',
  'a row was there already',
  'entries past retention were dropped',
  'a look-up found an accepted event',
  'a look-up found a landed event',
  'a look-up found a rejected event',
] as const;

export type Mark = (typeof MARKS)[number];

export class Marks {
  readonly counts = new Map<Mark, number>(MARKS.map((mark) => [mark, 0]));

  reach(mark: Mark): void {
    this.counts.set(mark, (this.counts.get(mark) ?? 0) + 1);
  }

  get unreached(): readonly Mark[] {
    return [...this.counts].flatMap(([mark, count]) => (count === 0 ? [mark] : []));
  }
}
