// What failed, in words for a line of the log.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { messageOf } from '../../lib/process/message-of.ts';

describe('a failure', () => {
  it('is described by its message', () => {
    assert.equal(messageOf(Object.assign(new Error('lost'), { code: 'ECONNRESET' })), 'lost');
  });

  it('without a message is described by its code', () => {
    assert.equal(messageOf(Object.assign(new AggregateError([], ''), { code: 'ECONNREFUSED' })), 'ECONNREFUSED');
  });

  it('without message and code is described by its name', () => {
    assert.equal(messageOf(new RangeError('')), 'RangeError');
  });

  it('that is no error is unknown', () => {
    assert.equal(messageOf('lost'), 'unknown error');
  });
});
