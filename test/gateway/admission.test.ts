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

  it('admits three quarters of the events from one producer, and leaves the rest to others', () => {
    const admission = new Admission(1_000, 1_000_000);
    assert.equal(fill(admission, 'greedy', 1), 750);
    assert.equal(fill(admission, 'other', 1), 188);
    assert.equal(fill(admission, 'third', 1), 47);
    assert.ok(admission.take('late', 1));
  });

  it('counts the events of a busy producer beside a thousand idle ones', () => {
    const admission = new Admission(4_000, 1_000_000);
    for (let at = 0; at <= 1_000; at += 1) {
      assert.ok(admission.take(`idle ${at}`, 1));
      admission.end(`idle ${at}`);
    }
    assert.equal(fill(admission, 'busy', 1), 3_000);
    for (let at = 0; at < 1_000; at += 1) admission.end('busy');
    assert.equal(fill(admission, 'busy', 1), 1_000);
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
          const before = open.length;
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
          if (open.length > before && before > 0) assert.ok(bytesOpen <= 100 || bytes === 0);
        }
        for (const { producer } of open) admission.end(producer);
        assert.deepEqual([admission.events, admission.bytes], [0, 0]);
      }),
    );
  });
});
