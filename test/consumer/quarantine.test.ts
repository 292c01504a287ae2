import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { classify, entryName, isRejection, quarantineName } from '../../lib/consumer/quarantine.ts';
import type { Delivery } from '../../lib/ingest/queue.ts';

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const BODY = '{"id":"order-1","type":"order.paid"}';

const delivery = (change: Partial<Delivery> = {}): Delivery => ({
  entry: '1-1',
  source: 'q/ingest',
  producer: 'shop',
  body: Buffer.from(BODY),
  notes: {},
  acceptedAtMs: 7,
  ...change,
});

describe('a delivery that is an event', () => {
  const event = {
    entry: '1-1',
    source: 'q/ingest',
    id: 'order-1',
    type: 'order.paid',
    producer: 'shop',
    body: Buffer.from(BODY),
    acceptedAtMs: 7,
  };

  it('becomes an event, with or without white space in its body', () => {
    const spaced = Buffer.from('{\n"id": "order-1", "type": "order.paid" }');
    assert.deepEqual(classify([delivery(), delivery({ body: spaced })]), [event, { ...event, body: spaced }]);
  });

  it('has the id, the replayed row and the trace of its entry', () => {
    const notes = { id: '/shop order-1', traceparent: TRACEPARENT, tracestate: 'a=1' };
    assert.deepEqual(classify([delivery({ notes, replayOf: 'q/ingest/0-1' })]), [
      { ...event, id: '/shop order-1', traceparent: TRACEPARENT, tracestate: 'a=1', replayOf: 'q/ingest/0-1' },
    ]);
  });

  it('has no trace if the trace context of its entry is invalid', () => {
    for (const notes of [{ traceparent: 'none', tracestate: 'a=1' }, { tracestate: 'a=1' }])
      assert.deepEqual(classify([delivery({ notes })]), [event]);
  });
});

describe('a delivery that is no event', () => {
  const cases: readonly (readonly [what: string, change: Partial<Delivery>, reason: string, id: string | undefined])[] =
    [
      ['without a body', { body: undefined }, 'invalid_entry: the entry has no body', undefined],
      ['without a producer', { producer: undefined }, 'invalid_entry: the entry names no producer', 'order-1'],
      [
        'that names an invalid id',
        { notes: { id: 'a\0b' } },
        'invalid_entry: the entry names an invalid id',
        'order-1',
      ],
      [
        'that is no JSON',
        { body: Buffer.from('{') },
        "invalid_event: the body is not JSON: Expected property name or '}' in JSON at position 1",
        undefined,
      ],
      ['without a type', { body: Buffer.from('{"id":"order-1"}') }, 'invalid_event: type is missing', 'order-1'],
      ['that is no object', { body: Buffer.from('[]') }, 'invalid_event: the body must be a JSON object', undefined],
      [
        'whose id is none',
        { body: Buffer.from('{"id":"a\\u0000","type":"t"}') },
        'invalid_event: id must be a string of 1 to 256 characters without control characters or lone surrogates',
        undefined,
      ],
      [
        'that is no event, of an entry that names its id',
        { body: Buffer.from('{'), notes: { id: '/shop 1' } },
        "invalid_event: the body is not JSON: Expected property name or '}' in JSON at position 1",
        '/shop 1',
      ],
    ];
  for (const [what, change, reason, id] of cases)
    it(`goes to quarantine with the reason, and the id if it is readable: ${what}`, () => {
      const [rejection, ...others] = classify([delivery(change)]);
      assert.ok(rejection !== undefined && isRejection(rejection) && others.length === 0);
      assert.deepEqual([rejection.reason, rejection.id], [reason, id]);
      assert.equal('id' in rejection, id !== undefined);
      assert.equal(`${rejection.code}:`, reason.split(' ')[0]);
    });
});

describe('an event while its type may have a schema', () => {
  const judgedBy = (problems: readonly string[] | undefined) => {
    const counted: string[] = [];
    const counts = {
      matched: { add: () => void counted.push('matched') },
      unmatched: { add: () => void counted.push('unmatched') },
      unschematized: { add: () => void counted.push('unschematized') },
    };
    const [entered] = classify([delivery()], { problemsOf: () => problems }, counts);
    assert.ok(entered !== undefined);
    return { entered, counted };
  };

  it('is counted and lands if it matches, or if its type has no schema', () => {
    for (const [problems, counted] of [
      [undefined, 'unschematized'],
      [[], 'matched'],
    ] as const) {
      const judged = judgedBy(problems);
      assert.equal(isRejection(judged.entered), false);
      assert.deepEqual(judged.counted, [counted]);
    }
  });

  it('is counted and goes to quarantine with all problems if it does not match', () => {
    const { entered, counted } = judgedBy(['/a must be integer', '/b is missing']);
    assert.ok(isRejection(entered));
    assert.deepEqual([entered.code, entered.reason], ['schema', 'schema: /a must be integer; /b is missing']);
    assert.deepEqual(counted, ['unmatched']);
  });
});

it('a quarantine row is named by queue, stream and entry, and a replayed one keeps its name', () => {
  assert.equal(entryName(delivery()), 'q/ingest/1-1');
  const rowOf = (more: Partial<Delivery>): string => {
    const [entered] = classify([delivery({ body: Buffer.from('no json'), ...more })]);
    assert.ok(entered !== undefined && isRejection(entered));
    return quarantineName(entered);
  };
  assert.match(rowOf({}), /^q\/ingest\/1-1~[0-9a-f]{16}$/);
  assert.equal(rowOf({ replayOf: 'q/ingest/0-1' }), 'q/ingest/0-1');
});
