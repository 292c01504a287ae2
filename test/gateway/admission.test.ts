import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Admission as Admitting, type Admitted } from '../../lib/gateway/admission.ts';

class Admission extends Admitting {
  readonly #open: Admitted[] = [];

  take(producer: string, bytes: number): boolean {
    const admitted = this.admit(producer, bytes);
    if (admitted !== undefined) this.#open.push(admitted);
    return admitted !== undefined;
  }

  growOf(producer: string, bytes: number): boolean {
    const admitted = this.#open.find((one) => one.producer === producer);
    return admitted !== undefined && this.grow(admitted, bytes);
  }

  end(producer: string): void {
    const at = this.#open.findIndex((one) => one.producer === producer);
    for (const admitted of this.#open.splice(at, 1)) this.release(admitted);
  }
}

function fill(admission: Admission, producer: string, bytes: number): number {
  for (let count = 0; ; count += 1) if (!admission.take(producer, bytes)) return count;
}

describe('admission', () => {
  it('admits a single event of any size, announced or growing', () => {
    const admission = new Admission(10, 100);
    assert.ok(admission.take('a', 5_000));
    assert.ok(admission.growOf('a', 5_000));
    assert.equal(admission.bytes, 10_000);
    assert.ok(!admission.take('b', 1));
    assert.ok(!admission.take('b', 0));
  });

  it('admits a growing event of a producer without others up to the limit, and no more of one with others', () => {
    const admission = new Admission(10, 100);
    assert.ok(admission.take('other', 10));
    assert.ok(admission.take('a', 0));
    for (const bytes of [80, 9, 1]) assert.ok(admission.growOf('a', bytes), `${bytes} bytes`);
    assert.ok(!admission.growOf('a', 1));
    assert.equal(admission.bytes, 100);
    admission.end('a');
    for (const bytes of [0, 60]) assert.ok(admission.take('b', bytes));
    assert.ok(admission.growOf('b', 10));
    assert.ok(!admission.growOf('b', 10), 'others need what is free');
  });

  it('admits bytes up to the limit', () => {
    const admission = new Admission(10, 100);
    assert.ok(admission.take('a', 60));
    assert.ok(!admission.take('b', 41));
    assert.ok(admission.take('b', 40));
    assert.ok(admission.take('c', 0));
    assert.ok(!admission.growOf('c', 1));
    assert.equal(admission.bytes, 100);
  });

  it('admits three quarters of the events from one producer, and leaves the rest to others', () => {
    const admission = new Admission(1_000, 1_000_000);
    assert.equal(fill(admission, 'greedy', 1), 750);
    assert.equal(fill(admission, 'other', 1), 188);
    assert.equal(fill(admission, 'third', 1), 47);
    assert.ok(admission.take('late', 1));
  });

  it('gives busy producers equal parts after the events before have ended', () => {
    const admission = new Admission(1_000, 1_000_000);
    const producers = ['a', 'b', 'c'];
    const held = new Map(producers.map((producer) => [producer, 0]));
    held.set('a', fill(admission, 'a', 1));
    for (let turn = 0; turn < 5_000; turn += 1) {
      for (const producer of producers) {
        if ((held.get(producer) ?? 0) > 0) admission.end(producer);
        const added = fill(admission, producer, 1);
        held.set(producer, Math.max((held.get(producer) ?? 0) - 1, 0) + added);
      }
    }
    for (const count of held.values()) assert.ok(count >= 290 && count <= 310, JSON.stringify([...held]));
  });

  it('stays within its limits and releases everything, in any order', () => {
    const step = fc.record({
      producer: fc.constantFrom('a', 'b', 'c', 'd'),
      bytes: fc.integer({ min: 0, max: 60 }),
      act: fc.constantFrom('admit', 'admit', 'grow', 'release'),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const admission = new Admission(10, 100);
        const open: { producer: string; bytes: number }[] = [];
        for (const { producer, bytes, act } of steps) {
          const alone = open.length;
          const one = open.find((candidate) => candidate.producer === producer);
          if (act === 'admit') {
            if (admission.take(producer, bytes)) open.push({ producer, bytes });
          } else if (one !== undefined && act === 'grow') {
            if (admission.growOf(producer, bytes)) one.bytes += bytes;
          } else if (one !== undefined) {
            open.splice(open.indexOf(one), 1);
            admission.end(producer);
          }
          const bytesOpen = open.reduce((sum, each) => sum + each.bytes, 0);
          assert.deepEqual([admission.events, admission.bytes], [open.length, bytesOpen]);
          assert.ok(open.length <= 10);
          if (act === 'admit' && open.length > alone && open.length > 1) assert.ok(bytesOpen <= 100 || bytes === 0);
        }
        for (const { producer } of open) admission.end(producer);
        assert.deepEqual([admission.events, admission.bytes], [0, 0]);
      }),
    );
  });
});
