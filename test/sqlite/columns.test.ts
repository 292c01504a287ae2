import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { bodyAt, columnsOf, landingsOf, textAt, VERDICT } from '../../lib/sqlite/columns.ts';
import { anyCharacter } from '../support/any-character.ts';

const unusual = fc.oneof(
  fc.string({ unit: anyCharacter }),
  fc.constantFrom('', '\0', '\ud83d', '\ude00', '\ud800\udc00', '\u{1F600}', '\ufeff', 'é', '\n', '\u2028'),
);
const events = fc.array(
  fc.record({
    id: unusual,
    type: unusual,
    producer: unusual,
    body: fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
    acceptedAtMs: fc.nat(),
  }),
);

describe('a batch as columns', () => {
  // Two halves of a pair that stand next to each other in different rows must not become one character.
  it('is the same batch on the other side of a thread, whatever its texts are', () => {
    fc.assert(
      fc.property(events, (batch) => {
        const columns = columnsOf(batch);
        const moved = structuredClone(columns, { transfer: [columns.bodies.buffer] });
        for (const [at, event] of batch.entries()) {
          assert.equal(textAt(moved.ids, at), event.id);
          assert.equal(textAt(moved.types, at), event.type);
          assert.equal(textAt(moved.producers, at), event.producer);
          assert.deepEqual(Buffer.from(bodyAt(moved, at)), event.body);
          assert.equal(moved.acceptedAtMs[at], event.acceptedAtMs);
        }
      }),
      { numRuns: 500 },
    );
  });

  it('gets its verdicts back in words', () => {
    const outcomes = ['landed', 'duplicate', 'reused', 'conflict'] as const;
    assert.deepEqual(landingsOf(Uint8Array.from(outcomes, (outcome) => VERDICT[outcome])), outcomes);
  });
});
