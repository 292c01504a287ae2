// The choice between two queues, and what an event is told when its own one is in trouble.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Dispatcher, QUEUES, Traffic, type DispatchedOutcome } from '../../lib/dispatcher/dispatcher.ts';
import { partitionOf } from '../../lib/ingest/partition.ts';
import type { Outcome, Queue, QueueLookup, QueueState, Submission } from '../../lib/ingest/queue.ts';
import { Counter } from '../../lib/telemetry/instruments.ts';
import { Recorded, submitAll } from '../contract/queue.ts';
import { MemoryQueue, MemoryQueueStore } from '../support/memory-queue.ts';
import { idsOf } from '../support/queue-ids.ts';

const OUTCOMES = ['accepted', 'duplicate', 'differing', 'conflict', 'shed'] as const;

type Counters = Record<DispatchedOutcome, Counter>;
const counters = (): Counters => Object.fromEntries(OUTCOMES.map((name) => [name, new Counter()])) as Counters;

/** A queue that a test opens and closes, and that says which ids it was given. */
class Gate implements Queue {
  readonly given: string[] = [];
  readonly held: Submission[] = [];
  readonly #behind = new MemoryQueue(new MemoryQueueStore());
  mode: 'takes' | 'refuses' | 'hangs' = 'takes';

  submit(submission: Submission): void {
    this.given.push(submission.id);
    if (this.mode === 'takes') this.#behind.submit(submission);
    else if (this.mode === 'hangs') this.held.push(submission);
    else queueMicrotask(() => submission.settle('unavailable'));
  }

  find(id: string, producer: string): Promise<QueueLookup> {
    this.given.push(id);
    return this.mode === 'takes' ? this.#behind.find(id, producer) : Promise.resolve({ kind: 'unavailable' });
  }

  state(): QueueState {
    return this.mode === 'takes' ? { available: true } : { available: false, reason: this.mode };
  }

  states(): readonly QueueState[] {
    return [this.state()];
  }

  close(): Promise<void> {
    this.mode = 'refuses';
    for (const submission of this.held.splice(0)) submission.settle('unavailable');
    return Promise.resolve();
  }
}

function dispatcherOf(eventsMax?: number, bytesMax?: number) {
  const gates = [new Gate(), new Gate()] as const;
  const counted = [counters(), counters()] as const;
  const lane = (at: 0 | 1) => ({
    name: QUEUES[at],
    queue: gates[at],
    traffic: new Traffic(counted[at], eventsMax, bytesMax),
  });
  return { dispatcher: new Dispatcher([lane(0), lane(1)]), gates, counted };
}

describe('the dispatcher', () => {
  it('sends every try of an id to one queue, whatever state the queues are in, and look-ups too', async () => {
    const id = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 256 });
    const mode = fc.constantFrom('takes' as const, 'refuses' as const);
    const step = fc.record({ at: fc.nat(7), even: mode, odd: mode, find: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(id, { minLength: 8, maxLength: 8 }),
        fc.array(step, { minLength: 1, maxLength: 40 }),
        async (ids, steps) => {
          const { dispatcher, gates } = dispatcherOf();
          const accepted = new Set<string>();
          for (const { at, even, odd, find } of steps) {
            gates[0].mode = even;
            gates[1].mode = odd;
            const chosen = ids[at] ?? assert.fail();
            const queue = gates[partitionOf(chosen, 2) === 0 ? 0 : 1];
            if (find) {
              const { kind } = await dispatcher.find(chosen, 'p');
              assert.equal(kind, queue.mode === 'refuses' ? 'unavailable' : accepted.has(chosen) ? 'found' : 'unknown');
              continue;
            }
            const [outcome] = await submitAll(dispatcher, [new Recorded(chosen)]);
            const wanted: Outcome = queue.mode === 'refuses' ? 'shed' : accepted.has(chosen) ? 'duplicate' : 'accepted';
            assert.equal(outcome, wanted);
            if (outcome === 'accepted') accepted.add(chosen);
          }
          for (const given of gates[0].given) assert.equal(partitionOf(given, 2), 0, given);
          for (const given of gates[1].given) assert.equal(partitionOf(given, 2), 1, given);
        },
      ),
    );
  });

  it('counts what became of each event, by its queue', async () => {
    const { dispatcher, gates, counted } = dispatcherOf();
    const [even = '', other = ''] = idsOf(0, 'counted', 2);
    const first = new Recorded(even);
    await submitAll(dispatcher, [
      first,
      new Recorded(even),
      new Recorded(even, 'q'),
      new Recorded(even, 'p', { n: 1 }),
    ]);
    gates[0].mode = 'refuses';
    await submitAll(dispatcher, [new Recorded(other)]);
    assert.deepEqual(
      OUTCOMES.map((outcome) => counted[0][outcome].value),
      [1, 1, 1, 1, 1],
    );
    assert.deepEqual(
      OUTCOMES.map((outcome) => counted[1][outcome].value),
      [0, 0, 0, 0, 0],
    );
  });

  it('holds so many events and no more for a queue that does not answer, and as many as ever for the other one', async () => {
    const { dispatcher, gates } = dispatcherOf(10);
    gates[0].mode = 'hangs';
    const stuck = idsOf(0, 'stuck', 10).map((id) => new Recorded(id));
    for (const one of stuck) dispatcher.submit(one);
    const over = idsOf(0, 'over', 50).map((id) => new Recorded(id));
    assert.deepEqual(new Set(await submitAll(dispatcher, over)), new Set(['shed']));
    assert.deepEqual(await dispatcher.find(idsOf(0, 'over', 1)[0] ?? '', 'p'), { kind: 'unavailable' });
    const free = idsOf(1, 'free', 10).map((id) => new Recorded(id));
    assert.deepEqual(new Set(await submitAll(dispatcher, free)), new Set(['accepted']));
    assert.equal(gates[0].held.length, 10);
    for (const one of gates[0].held.splice(0)) one.settle('accepted');
    gates[0].mode = 'takes';
    assert.deepEqual(await submitAll(dispatcher, [new Recorded(idsOf(0, 'after', 1)[0] ?? '')]), ['accepted']);
  });

  it('holds so many bytes and no more, but one event however large it is', async () => {
    const { dispatcher, gates } = dispatcherOf(undefined, 1_000);
    gates[0].mode = 'hangs';
    const [large = '', next = '', last = ''] = idsOf(0, 'large', 3);
    const padded = (id: string, bytes: number): Recorded => new Recorded(id, 'p', { pad: 'é'.repeat(bytes / 2) });
    dispatcher.submit(padded(large, 5_000));
    assert.equal(gates[0].held.length, 1);
    assert.deepEqual(await submitAll(dispatcher, [padded(next, 2)]), ['shed']);
    gates[0].held.pop()?.settle('accepted');
    dispatcher.submit(padded(next, 600));
    assert.deepEqual(await submitAll(dispatcher, [padded(last, 600)]), ['shed']);
    assert.equal(gates[0].held.length, 1);
  });

  it('has room again for each event and look-up that has its answer', async () => {
    const { dispatcher } = dispatcherOf(2, 1_000);
    for (const id of idsOf(0, 'in turn', 10)) {
      const event = new Recorded(id, 'p', { pad: 'x'.repeat(600) });
      assert.deepEqual(await submitAll(dispatcher, [event]), ['accepted']);
      assert.equal((await dispatcher.find(id, 'p')).kind, 'found');
    }
  });

  it('has room for the bytes of each event that has its answer, while another one waits', async () => {
    const { dispatcher, gates } = dispatcherOf(undefined, 1_000);
    gates[0].mode = 'hangs';
    const [waiting = '', ...others] = idsOf(0, 'bytes', 5);
    dispatcher.submit(new Recorded(waiting));
    for (const id of others) {
      const event = new Recorded(id, 'p', { pad: 'x'.repeat(600) });
      dispatcher.submit(event);
      gates[0].held.pop()?.settle('accepted');
      assert.equal(await event.outcome, 'accepted');
    }
    assert.equal(gates[0].held.length, 1);
  });

  it('is available while one queue is, and says of both why not when neither is', () => {
    const { dispatcher, gates } = dispatcherOf();
    gates[0].mode = 'refuses';
    assert.deepEqual(dispatcher.state(), { available: true });
    gates[1].mode = 'hangs';
    assert.deepEqual(dispatcher.state(), { available: false, reason: 'ingest-a: refuses; ingest-b: hangs' });
  });

  it('sheds nothing because of its own end', async () => {
    const { dispatcher, gates } = dispatcherOf();
    gates[0].mode = 'hangs';
    const stuck = new Recorded(idsOf(0, 'stuck', 1)[0] ?? '');
    dispatcher.submit(stuck);
    await dispatcher.close();
    assert.equal(await stuck.outcome, 'unavailable');
    assert.deepEqual(await submitAll(dispatcher, [new Recorded('late')]), ['unavailable']);
  });
});
