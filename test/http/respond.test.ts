import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { lastResponse, responseText } from '../../lib/http/respond.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const clock = new VirtualClock();
const OK = { status: 200, contentType: 'text/plain', body: 'ok' };

describe('a response as text', () => {
  it('has a head with the date of this second, and the body', () => {
    const answer = { ...OK, headers: ['Retry-After', '1', 'Allow', 'GET'] };
    const lines = (): readonly string[] =>
      responseText('mine', answer, 2, 'Keep-Alive: timeout=5\r\n', clock).split('\r\n');
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
    assert.deepEqual(lines(), expected('Thu, 01 Jan 2026 00:00:00 GMT'));
    clock.jump(999);
    assert.deepEqual(lines(), expected('Thu, 01 Jan 2026 00:00:00 GMT'));
    clock.jump(1);
    assert.deepEqual(lines(), expected('Thu, 01 Jan 2026 00:00:01 GMT'));
  });

  it('has no reason for an unknown status, and no body if that is bytes', () => {
    const text = responseText('mine', { ...OK, status: 299, body: [Buffer.from('ab')] }, 2, '', clock);
    assert.match(text, /^HTTP\/1\.1 299 \r\n[^]*\r\nContent-Length: 2\r\n[^]*\r\n\r\n$/);
  });

  it('announces the end of the connection if it is the last', () => {
    const text = lastResponse('mine', { ...OK, body: 'é' }, clock);
    assert.match(text, /\r\nContent-Length: 2\r\n[^]*\r\nConnection: close\r\n\r\né$/);
  });
});
