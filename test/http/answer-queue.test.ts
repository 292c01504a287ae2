import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AnswerQueue, type Owed } from '../../lib/http/plain/answer-queue.ts';

class Request implements Owed {
  readonly method: string;
  answer: string | undefined;
  readonly answerBody = undefined;
  answerIsAscii = true;
  closes = false;

  constructor(method = 'POST') {
    this.method = method;
  }
}

function queueOf(...requests: readonly Request[]): AnswerQueue<Request> {
  const queue = new AnswerQueue<Request>();
  for (const request of requests) queue.add(request);
  return queue;
}

function answer(queue: AnswerQueue<Request>, request: Request, text: string): void {
  request.answer = text;
  queue.answered(request);
}

describe('the answers that a connection owes', () => {
  it('are enough at 256 events, or at one look-up, whose answer may be large', () => {
    for (const [method, most] of [
      ['POST', 256],
      ['GET', 1],
    ] as const) {
      const queue = queueOf();
      for (let at = 1; at < most; at += 1) queue.add(new Request(method));
      assert.equal(queue.full, false);
      queue.add(new Request(method));
      assert.equal(queue.full, true);
      queue.dropNewest();
      assert.equal(queue.full, false);
    }
  });

  it('count by their length once they are made', () => {
    const request = new Request('GET');
    const queue = queueOf(request);
    answer(queue, request, 'short');
    assert.equal(queue.full, false);
    const large = new Request('POST');
    queue.add(large);
    answer(queue, large, 'x'.repeat(262_144));
    assert.equal(queue.full, true);
    while (queue.take() !== undefined);
    assert.deepEqual([queue.full, queue.any], [false, false]);
  });

  it('leave in the order of the requests, each behind those before it', () => {
    const [first, second, third] = [new Request(), new Request('GET'), new Request()];
    const queue = queueOf(first, second, third);
    answer(queue, second, 'second ');
    answer(queue, third, 'third');
    assert.equal(queue.take(), undefined);
    assert.equal(queue.oldest, first);
    answer(queue, first, 'first ');
    assert.equal(queue.take()?.text, 'first second third');
    assert.equal(queue.any, false);
  });

  it('end with the one that closes', () => {
    const [first, second] = [new Request(), new Request()];
    const queue = queueOf(first, second);
    first.closes = true;
    answer(queue, first, 'first');
    answer(queue, second, 'second');
    assert.deepEqual(queue.take(), { text: 'first', encoding: 'latin1', body: [], closes: true });
    assert.equal(queue.any, false);
  });

  it('leave in pieces', () => {
    const requests = Array.from({ length: 10 }, () => new Request());
    const queue = queueOf(...requests);
    for (const request of requests) answer(queue, request, 'x'.repeat(30_000));
    const lengths: number[] = [];
    for (let batch = queue.take(); batch !== undefined; batch = queue.take()) lengths.push(batch.text.length);
    assert.deepEqual(lengths, [90_000, 90_000, 90_000, 30_000]);
  });

  it('are UTF-8 where one of them is', () => {
    const [first, second] = [new Request(), new Request()];
    const queue = queueOf(first, second);
    answer(queue, first, 'a');
    second.answerIsAscii = false;
    answer(queue, second, 'ä');
    assert.equal(queue.take()?.encoding, 'utf8');
  });
});
