import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { headTail, lastResponse, requestIdFrom, responseText } from '../../lib/http/respond.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const OK = { status: 200, contentType: 'text/plain', body: 'ok' };

describe('a response as text', () => {
  it('has a head with the date of this second, and the body', () => {
    const clock = new VirtualClock();
    const tail = headTail('Keep-Alive: timeout=5');
    const answer = { ...OK, headers: ['Retry-After', '1', 'Allow', 'GET'] };
    const lines = (): readonly string[] => responseText('mine', answer, tail(clock.epochMs())).split('\r\n');
    const expected = (date: string): readonly string[] => [
      'HTTP/1.1 200 OK',
      'Content-Type: text/plain',
      'Content-Length: 2',
      'X-Request-Id: mine',
      'Retry-After: 1',
      'Allow: GET',
      `Date: ${date}`,
      'Keep-Alive: timeout=5',
      '',
      'ok',
    ];
    for (const [jumpMs, date] of [
      [0, 'Thu, 01 Jan 2026 00:00:00 GMT'],
      [999, 'Thu, 01 Jan 2026 00:00:00 GMT'],
      [1, 'Thu, 01 Jan 2026 00:00:01 GMT'],
      [-2_000, 'Wed, 31 Dec 2025 23:59:59 GMT'],
    ] as const) {
      clock.jump(jumpMs);
      assert.deepEqual(lines(), expected(date));
    }
  });

  it('has one character per byte, and announces the end of the connection if it is the last', () => {
    const text = lastResponse('\xff', { ...OK, body: 'é' }, new VirtualClock());
    const bytes = Buffer.from('é').toString('latin1');
    assert.match(text, /\r\nContent-Length: 2\r\nX-Request-Id: \xff\r\n[^]*\r\nConnection: close\r\n/);
    assert.ok(text.endsWith(`\r\n\r\n${bytes}`));
  });
});

it('a caller’s request id that is no legal field value is replaced with a UUID', () => {
  for (const given of [undefined, '', 'a\x7f', 'a\r\nb', 'a\0', ' a', 'a\t'])
    assert.match(
      requestIdFrom(given, SYSTEM.random),
      /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/,
    );
});
