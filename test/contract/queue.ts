// The contract suite for the accepting side of a queue (lib/ingest/queue.ts).
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { EventNotes, Outcome, Queue, Submission } from '../../lib/ingest/queue.ts';
import { eventually } from '../support/scope.ts';

export interface QueueUnderTest {
  /** Opens a queue on the storage that all queues of a run share. `retentionMs` shortens the retention. */
  open(retentionMs?: number): Promise<Queue>;
  land(): Promise<void>;
  /** Runs `during` while the queue's server, if it has one, is unavailable. Accepted events survive the outage. */
  outage(during: () => Promise<void>): Promise<void>;
  bodies(): Promise<readonly string[]>;
}

/** A submission that records its outcome. The test fails if the submission gets a second outcome. */
export class Recorded implements Submission {
  readonly id: string;
  readonly producer: string;
  readonly text: string;
  readonly notes?: EventNotes;
  readonly outcome: Promise<Outcome>;
  settled = 0;
  #resolve!: (outcome: Outcome) => void;

  constructor(id: string, producer = 'p', more: Readonly<Record<string, unknown>> = {}) {
    this.id = id;
    this.producer = producer;
    this.text = JSON.stringify({ id, type: 'a', ...more });
    this.outcome = new Promise((resolve) => (this.#resolve = resolve));
  }

  get body(): Buffer {
    return Buffer.from(this.text);
  }

  again(): Recorded {
    const { text } = this;
    return Object.assign(new Recorded(this.id, this.producer), { text });
  }

  settle(outcome: Outcome): void {
    this.settled += 1;
    this.#resolve(outcome);
  }
}

export async function submitAll(queue: Queue, submissions: readonly Recorded[]): Promise<Outcome[]> {
  for (const submission of submissions) queue.submit(submission);
  for (const { settled } of submissions) assert.equal(settled, 0, 'settled before submit has returned');
  const outcomes = await Promise.all(submissions.map(({ outcome }) => outcome));
  for (const { settled } of submissions) assert.equal(settled, 1);
  return outcomes;
}

export function queueContract(name: string, make: () => Promise<QueueUnderTest>): void {
  describe(`${name}, as a queue`, () => {
    let under: QueueUnderTest;
    let queue: Queue;
    const opened: Queue[] = [];
    const open = async (retentionMs?: number): Promise<Queue> => {
      const one = await under.open(retentionMs);
      opened.push(one);
      return one;
    };
    before(async () => {
      under = await make();
      queue = await open();
    });
    after(async () => {
      for (const one of opened) await one.close();
    });

    async function added<T>(act: () => Promise<T>): Promise<[T, readonly string[]]> {
      const { length } = await under.bodies();
      return [await act(), (await under.bodies()).slice(length)];
    }

    it('accepts an event and finds it with the time of acceptance', async () => {
      const start = Date.now();
      const event = new Recorded('one', 'p', { text: '\u0000 é \u{1F600}' });
      const [outcomes, bodies] = await added(() => submitAll(queue, [event]));
      assert.deepEqual(outcomes, ['accepted']);
      assert.deepEqual(bodies, [event.text]);
      const found = await queue.find('one', 'p');
      assert.equal(found.kind, 'found');
      assert.equal(found.event.body.toString(), event.text);
      assert.ok(Math.abs(found.event.acceptedAtMs - start) < 60_000);
    });

    it('calls a repeated id a duplicate, reports whether the body differs, and keeps the first body', async () => {
      const of = (n: number | string): Recorded => new Recorded('twice', 'p', { n });
      const first = of('\u00e9');
      const [outcomes, bodies] = await added(async () => [
        ...(await submitAll(queue, [first])),
        ...(await submitAll(queue, [of('e')])),
        ...(await submitAll(queue, [of('\u00e9'), of(3), of('\u00e9')])),
      ]);
      assert.deepEqual(outcomes, ['accepted', 'differing', 'duplicate', 'differing', 'duplicate']);
      assert.deepEqual(bodies, [first.text]);
    });

    it('recognizes repeats within one turn, and accepts every id of the turn once', async () => {
      const turn = Array.from({ length: 60 }, (_, at) => new Recorded(`turn-${at % 20}`, 'p', { at }));
      const [outcomes, bodies] = await added(() => submitAll(queue, turn));
      const expected = turn.map((_, at) => (at < 20 ? 'accepted' : 'differing'));
      assert.deepEqual(outcomes, expected);
      const texts = turn.slice(0, 20).map(({ text }) => text);
      assert.deepEqual(bodies, texts);
    });

    it("calls another producer's id a conflict, adds nothing, and does not show it", async () => {
      const [mine, theirs] = [new Recorded('owned', 'p'), new Recorded('owned', 'q')];
      const [outcomes, bodies] = await added(() => submitAll(queue, [mine, theirs]));
      assert.deepEqual(outcomes, ['accepted', 'conflict']);
      assert.deepEqual(bodies, [mine.text]);
      assert.deepEqual(await queue.find('owned', 'q'), { kind: 'unknown' });
      assert.deepEqual(await submitAll(queue, [new Recorded('owned', 'q')]), ['conflict']);
    });

    it('knows the producer of an id in every spelling of its name, and distinguishes similar names', async () => {
      for (const [id, owner, same, others] of [
        ['near', 'urn:Shop', [], ['urn:shop', 'urn:shop ', 'urn:sho', 'urn:sh\u00f6p', 'urn:sho\u0308p', 'urn:shop\0']],
        [
          ...(['spelled', 'spiffe://Shop.test/web'] as const),
          ['spiffe://shop.test/web', 'SPIFFE://SHOP.test/web'],
          ['spiffe://shop.test/Web', 'spiffe://shop.test/webx'],
        ],
      ] as const) {
        const first = new Recorded(id, owner);
        const of = (producer: string): Recorded => Object.assign(new Recorded(id, producer), { text: first.text });
        assert.deepEqual(await submitAll(queue, [first, ...same.map(of), ...others.map(of)]), [
          'accepted',
          ...same.map(() => 'duplicate'),
          ...others.map(() => 'conflict'),
        ]);
        for (const name of [owner, ...same, ...others]) {
          const isOther = others.some((other) => other === name);
          assert.deepEqual(await submitAll(queue, [of(name)]), [isOther ? 'conflict' : 'duplicate'], name);
          assert.equal((await queue.find(id, name)).kind, isOther ? 'unknown' : 'found', name);
        }
      }
    });

    it('accepts an id once if two queues race for it', async () => {
      const others = await Promise.all([open(), open()]);
      const racing = Array.from({ length: 100 }, (_, n) => ['p', 'q'].map((name) => new Recorded(`raced-${n}`, name)));
      const [, bodies] = await added(async () => {
        for (const pair of racing) pair.forEach((one, at) => others[at]?.submit(one));
        await Promise.all(racing.flat().map(({ outcome }) => outcome));
      });
      assert.equal(bodies.length, 100);
      for (const pair of racing) {
        const outcomes = await Promise.all(pair.map(({ outcome }) => outcome));
        assert.deepEqual(outcomes.toSorted(), ['accepted', 'conflict']);
      }
    });

    for (const [what, length, pad] of [
      ['more events in one turn than one call carries', 700, ''],
      ['bodies that are large together', 30, 'x'.repeat(100_000)],
    ] as const)
      it(`accepts ${what}, in order`, async () => {
        const turn = Array.from({ length }, (_, at) => new Recorded(`many-${length}-${at}`, 'p', { pad }));
        const [outcomes, bodies] = await added(() => submitAll(queue, turn));
        assert.deepEqual(new Set(outcomes), new Set(['accepted']));
        const texts = turn.map(({ text }) => text);
        assert.deepEqual(bodies, texts);
      });

    it('distinguishes similar ids', async () => {
      const short = ['a', 'A', 'a ', ' a', 'á', 'a\u0301', '1', '01', '1.0', '1e0', '-'];
      const ids = [...short, ...[64, 65, 256].map((length) => 'x'.repeat(length)), `${'x'.repeat(255)}y`];
      const events = ids.map((id) => new Recorded(id));
      assert.deepEqual(new Set(await submitAll(queue, events)), new Set(['accepted']));
      for (const { id, text } of events) {
        const found = await queue.find(id, 'p');
        assert.equal(found.kind === 'found' ? found.event.body.toString() : found.kind, text);
      }
    });

    it('knows an id past retention while its event has not landed', async () => {
      const short = await open(300);
      assert.deepEqual(await submitAll(short, [new Recorded('waiting')]), ['accepted']);
      const acceptedMs = performance.now();
      await eventually('retention is over', () => performance.now() - acceptedMs > 1_000);
      assert.deepEqual(await submitAll(short, [new Recorded('waiting'), new Recorded('waiting', 'q')]), [
        'duplicate',
        'conflict',
      ]);
      assert.equal((await short.find('waiting', 'p')).kind, 'found');
      await under.land();
      await eventually(
        'it is forgotten once it has landed',
        async () => (await short.find('waiting', 'p')).kind === 'unknown',
      );
      assert.deepEqual(await submitAll(short, [new Recorded('waiting', 'q')]), ['accepted']);
      await short.close();
    });

    it('forgets the id of a landed event after the retention, and not before', async () => {
      const retentionMs = 3_000;
      const short = await open(retentionMs);
      const start = performance.now();
      assert.deepEqual(await submitAll(short, [new Recorded('fading')]), ['accepted']);
      // The retention starts at most `acceptedMs` after `start`.
      const acceptedMs = performance.now() - start;
      await under.land();
      let lastDuplicateMs = 0;
      const forgottenMs = await eventually('the id is forgotten', async () => {
        const askedMs = performance.now() - start;
        const found = await short.find('fading', 'p');
        if (found.kind === 'found') lastDuplicateMs = askedMs;
        return found.kind === 'unknown' ? performance.now() - start : undefined;
      });
      assert.ok(forgottenMs >= retentionMs - 5, `forgotten after ${forgottenMs} ms`);
      assert.ok(
        lastDuplicateMs < acceptedMs + retentionMs + 50,
        `accepted after ${acceptedMs} ms, still there when asked after ${lastDuplicateMs} ms`,
      );
      assert.deepEqual(await submitAll(short, [new Recorded('fading', 'q')]), ['accepted']);
      await short.close();
    });

    it('accepts a repeated event once after an outage, and knows the events of before', async () => {
      const [kept, lost, next] = [new Recorded('kept'), new Recorded('lost'), new Recorded('next')];
      const [, bodies] = await added(async () => {
        assert.deepEqual(await submitAll(queue, [kept]), ['accepted']);
        await under.outage(async () => {
          const outcomes = await submitAll(queue, [lost]);
          assert.ok(['accepted', 'unavailable'].includes(outcomes.join()));
        });
        await eventually('it is available', () => queue.states().every(({ available }) => available));
        assert.ok(['accepted', 'duplicate'].includes((await submitAll(queue, [lost.again()])).join()));
        const second = await submitAll(queue, [lost.again(), kept.again(), next]);
        assert.deepEqual(second, ['duplicate', 'duplicate', 'accepted']);
      });
      assert.deepEqual(bodies, [kept.text, lost.text, next.text]);
    });

    it('reports that it is available, and after its end answers later submissions', async () => {
      const ending = await open();
      assert.deepEqual(ending.state(), { available: true });
      assert.deepEqual(new Set(ending.states().map(({ available }) => available)), new Set([true]));
      const last = new Recorded('last');
      ending.submit(last);
      await ending.close();
      const late = new Recorded('late');
      ending.submit(late);
      assert.ok(['accepted', 'unavailable'].includes(await last.outcome));
      assert.equal(await late.outcome, 'unavailable');
      assert.deepEqual(await ending.find('last', 'p'), { kind: 'unavailable' });
      await ending.close();
      assert.deepEqual([last.settled, late.settled], [1, 1]);
    });
  });
}
