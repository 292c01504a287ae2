// The accepting side while a queue moves to another one: an id that the previous queue knows is a duplicate still, and
// what it does not know goes to the current one.
//
// Invariants: nothing is appended to the previous queue. While it cannot be asked nothing is accepted, because nobody
// could tell whether an id is new. Each of the two has half of the time-out, so every submission is settled within it.
//
// Limits: the previous queue is one stream on one server. A gateway that still accepts for the previous queue alone
// does not ask the current one: of an id that is sent to both kinds of gateway during the change the warehouse keeps
// one row.
import type { Queue, QueueLookup, QueueState, Submission, Outcome } from '../ingest/queue.ts';
import { RETENTION_MS } from '../ingest/queue.ts';
import type { Log } from '../process/log.ts';
import type { RedisConnection } from './client.ts';
import { withTimeout } from './deadline.ts';
import type { Reply } from './reply.ts';
import { Script } from './script.ts';
import { STREAM } from './stream-names.ts';
import type { StreamQueue } from './stream-queue.ts';

/** Events of one question, and their characters: see stream-queue.ts. */
const CALL_EVENTS_MAX = 256;
const CALL_CHARACTERS_MAX = 1 << 20;

/** A duplicate whose body is to be compared here (known.lua). */
const COMPARE = '6';

const KNOWN: Readonly<Record<string, Outcome>> = { 1: 'duplicate', 2: 'conflict', 3: 'differing' };

export interface MovingQueueOptions {
  readonly current: Queue;
  /** Its state and its look-ups; it is given no submissions. */
  readonly previous: Queue & Pick<StreamQueue, 'indexField' | 'stalled'>;
  /** To the previous queue's server. */
  readonly connection: RedisConnection<Reply>;
  /** How long the previous queue may take, in milliseconds. */
  readonly timeoutMs: number;
  readonly log: Log;
}

export class MovingQueue implements Queue {
  readonly #options: MovingQueueOptions;
  readonly #script = new Script('known.lua', 'entry-name.lua');
  #pending: Submission[] = [];

  constructor(options: MovingQueueOptions) {
    this.#options = options;
  }

  submit(submission: Submission): void {
    this.#pending.push(submission);
    if (this.#pending.length > 1) return;
    setImmediate(() => {
      const submissions = this.#pending;
      this.#pending = [];
      for (let from = 0; from < submissions.length;) {
        const some = callOf(submissions, from);
        from += some.length;
        void this.#ask(some);
      }
    });
  }

  async find(id: string, producer: string): Promise<QueueLookup> {
    const { current, previous } = this.#options;
    const found = await Promise.all([current.find(id, producer), previous.find(id, producer)]);
    return found.find(({ kind }) => kind === 'found') ?? found.find(({ kind }) => kind === 'unavailable') ?? found[0];
  }

  state(): QueueState {
    const { current, previous, connection } = this.#options;
    if (connection.ready && !previous.stalled) return current.state();
    const reason = connection.ready ? 'it does not answer' : connection.lastError;
    return { available: false, reason: `the previous queue: ${reason}` };
  }

  states(): readonly QueueState[] {
    return this.#options.current.states();
  }

  async close(): Promise<void> {
    await Promise.all([this.#options.current.close(), this.#options.previous.close()]);
  }

  async #ask(submissions: readonly Submission[]): Promise<void> {
    const { connection, current, previous, timeoutMs, log } = this.#options;
    const command = this.#script.command(STREAM);
    command.push(String(RETENTION_MS));
    for (const { id, producer, text } of submissions) command.push(previous.indexField(id), producer, text);
    let verdicts: string;
    try {
      verdicts = (await withTimeout(this.#script.run(connection, command), timeoutMs)).text();
    } catch (cause) {
      log.debug({ err: cause }, 'the previous queue could not be asked');
      for (const submission of submissions) submission.settle('unavailable');
      return;
    }
    for (const [at, submission] of submissions.entries()) {
      if (verdicts[at] === COMPARE) {
        void this.#compare(submission);
        continue;
      }
      const known = KNOWN[verdicts[at] ?? ''];
      if (known === undefined) current.submit(submission);
      else submission.settle(known);
    }
  }

  async #compare(submission: Submission): Promise<void> {
    const found = await this.#options.previous.find(submission.id, submission.producer);
    if (found.kind !== 'found') submission.settle('unavailable');
    else submission.settle(found.event.body.equals(Buffer.from(submission.text)) ? 'duplicate' : 'differing');
  }
}

/** As many submissions from `from` on as one call may carry; one at least. */
function callOf(submissions: readonly Submission[], from: number): readonly Submission[] {
  let to = from;
  for (let characters = 0; to < submissions.length && to - from < CALL_EVENTS_MAX; to += 1) {
    characters += submissions[to]?.text.length ?? 0;
    if (characters > CALL_CHARACTERS_MAX && to > from) break;
  }
  return submissions.slice(from, to);
}
