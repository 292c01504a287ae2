// By what an event is read, and what is said of one that cannot be.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { eventReader, type EventId } from '../../lib/gateway/event-reader.ts';
import type { RequestHead } from '../../lib/http/request.ts';

const readerOf = (head: Partial<RequestHead>, eventId: EventId = 'id') => eventReader(head as RequestHead, eventId);

function read(head: Partial<RequestHead>, body: string, eventId?: EventId) {
  const reader = readerOf(head, eventId);
  assert.ok(typeof reader === 'function', JSON.stringify(reader));
  return reader(Buffer.from(body));
}

const CLOUD_EVENT = { contentType: 'application/cloudevents+json' };
const attributes = (more: object = {}): string =>
  JSON.stringify({ specversion: '1.0', source: '/shop', id: '7', type: 'order.placed', ...more });

describe('the reader of an event', () => {
  it('is chosen by the media type, however it is written, and is none for another one', () => {
    for (const contentType of ['application/json', 'Application/JSON', 'application/json; charset=utf-8 '])
      assert.equal(readerOf({ contentType }), readerOf({ contentType: 'application/json' }), contentType);
    for (const contentType of ['application/cloudevents+json', 'application/CloudEvents+json ;charset="UTF-8"'])
      assert.equal(readerOf({ contentType }), readerOf(CLOUD_EVENT), contentType);
    assert.notEqual(readerOf(CLOUD_EVENT), readerOf({ contentType: 'application/json' }));
    assert.notEqual(readerOf(CLOUD_EVENT, 'source+id'), readerOf(CLOUD_EVENT));
    for (const contentType of [undefined, '', 'text/json', 'application/json,', 'application/json; charset=utf-16'])
      assert.equal(typeof readerOf({ contentType }), 'object', String(contentType));
  });

  it('says of a CloudEvent what is wrong with it, and adds advice only where there is some', () => {
    const missing = read(CLOUD_EVENT, attributes({ source: undefined }));
    assert.ok(!missing.valid);
    assert.doesNotMatch(missing.detail, /undefined|CloudEvents allows/);
    const typed = read(CLOUD_EVENT, attributes({ type: 'order/placed' }));
    assert.ok(!typed.valid);
    assert.match(typed.detail, /.: CloudEvents allows "\/" and ":" in a type, this service takes dotted words only/);
  });

  it('gives a CloudEvent its own id, or that and its source together, which is noted', () => {
    const own = read(CLOUD_EVENT, attributes());
    assert.ok(own.valid);
    assert.equal(own.id, '7');
    assert.equal('notes' in own, false);
    const both = read(CLOUD_EVENT, attributes(), 'source+id');
    assert.ok(both.valid && 'notes' in both);
    assert.equal(both.id, '/shop 7');
    assert.deepEqual(both.notes, { id: '/shop 7' });
    assert.equal(both.text, attributes());
    assert.equal(read(CLOUD_EVENT, '{}', 'source+id').valid, false);
    const plain = read({ contentType: 'application/json' }, attributes(), 'source+id');
    assert.ok(plain.valid);
    assert.equal(plain.id, '7');
  });

  it('makes the structured form of a CloudEvent in binary mode, and says where it cannot', () => {
    const cloudEventFields = [
      ['ce-specversion', '1.0'],
      ['ce-source', '/shop'],
      ['ce-id', '7'],
      ['ce-type', 'order.placed'],
    ] as const;
    const head = { contentType: 'application/json', cloudEventFields };
    const made = read(head, '{"n":1}', 'source+id');
    assert.ok(made.valid);
    assert.equal(made.id, '/shop 7');
    assert.deepEqual((JSON.parse(made.text) as { readonly data: unknown }).data, { n: 1 });
    assert.equal(read(head, 'no JSON').valid, false);
  });
});
