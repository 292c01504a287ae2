import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { erasedBody, isErased } from '../../lib/ingest/erased.ts';
import { parseEvent } from '../../lib/ingest/event.ts';

describe('the body of an erased event', () => {
  it('is an event with its former id and type, and the member erased', () => {
    const body = erasedBody('order "1"', 'order.placed');
    const event = parseEvent(Buffer.from(body));
    assert.ok(event.valid);
    assert.deepEqual([event.id, event.type], ['order "1"', 'order.placed']);
    assert.deepEqual(JSON.parse(body), { id: 'order "1"', type: 'order.placed', erased: true });
  });

  it('is recognized by its bytes, as text or as a buffer, with a type or without', () => {
    for (const body of [
      erasedBody('a', 't'),
      erasedBody('é \u{1F600} "\\', 'a.b'),
      erasedBody('a', undefined),
      erasedBody('', undefined),
    ]) {
      assert.equal(isErased(body), true, body);
      assert.equal(isErased(Buffer.from(body)), true, body);
    }
  });

  it('is not confused with similar bodies', () => {
    for (const body of [
      ...['', ',"erased":true}', 'x,"erased":true}', '{"id":"a","type":"t"}'],
      ...['{"id":"a","type":"t","erased":true} ', ' {"id":"a","type":"t","erased":true}'],
      ...['{"id":"a", "type":"t","erased":true}', '{"type":"t","id":"a","erased":true}'],
      ...['{"id":"a","type":"t","data":1,"erased":true}', '{"id":1,"type":"t","erased":true}'],
      ...['{"id":"a","type":1,"erased":true}', '{"id":"a","type":null,"erased":true}', '{"type":"t","erased":true}'],
      '{"id":"a","type":"t","data":{"id":"a","erased":true}',
    ])
      for (const form of [body, Buffer.from(body)]) assert.equal(isErased(form), false, body);
  });
});
