// The events of one accepting call that a gateway made to a dispatcher (lib/ingest/dispatcher-commands.ts), and the
// call's answer.
//
// Invariant: the answer is given once, when every event of the call has its outcome.
import { OUTCOME_CHARACTERS } from '../ingest/dispatcher-commands.ts';
import type { EventNotes, Outcome, Queue } from '../ingest/queue.ts';
import type { Command } from './command-reader.ts';

/**
 * Submits the events (at least one) of an accepting command; `withNotes`: each has some. `answer` is called with the
 * whole answer.
 */
export function submitEvents(command: Command, withNotes: boolean, queue: Queue, answer: (text: string) => void): void {
  const each = withNotes ? 3 : 2;
  const count = command.parts / (1 + each);
  const verdicts = new Verdicts(count, answer);
  let producer = '';
  for (let at = 0; at < count; at += 1) {
    const event = 1 + count + at * each;
    // Most events of a call are one producer's.
    if (at === 0 || !command.isSame(event, event - each)) producer = command.utf8(event);
    const id = command.utf8(1 + at);
    const text = command.utf8(event + 1);
    const notes = withNotes ? notesOf(command.utf8(event + 2)) : undefined;
    queue.submit({ id, producer, text, notes, settle: (outcome) => verdicts.set(at, outcome) });
  }
}

/** The verdict string of one accepting call, digit by digit. */
class Verdicts {
  readonly #digits: Buffer;
  readonly #whole: (answer: string) => void;
  #missing: number;

  constructor(count: number, whole: (answer: string) => void) {
    this.#digits = Buffer.allocUnsafe(count);
    this.#missing = count;
    this.#whole = whole;
  }

  set(at: number, outcome: Outcome): void {
    this.#digits[at] = OUTCOME_CHARACTERS[outcome];
    this.#missing -= 1;
    if (this.#missing === 0) this.#whole(`$${this.#digits.length}\r\n${this.#digits.toString('latin1')}\r\n`);
  }
}

/** Names and values by turns, each ended by a line feed (accept.lua); undefined where there are none. */
function notesOf(members: string): EventNotes | undefined {
  if (members === '') return undefined;
  const lines = members.split('\n');
  return Object.fromEntries(
    Array.from({ length: Math.floor(lines.length / 2) }, (_, at) => [lines[2 * at] ?? '', lines[2 * at + 1] ?? '']),
  );
}
