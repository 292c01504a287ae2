import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AnswerQueue, type Owed } from '../../lib/http/plain/answer-queue.ts';

class Request implements Owed {
  readonly head: { readonly method: string };
  answer: string | undefined;
  answerBody: readonly Buffer[] | undefined = undefined;
  answerIsAscii = true;
  closes = false;

  constructor(method = 'POST') {
    this.head = { method };
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

  it('are enough at 256 requests also where all answers but the first are made, and short', () => {
    const queue = queueOf(new Request());
    for (let at = 1; at < 256; at += 1) {
      assert.equal(queue.full, false, String(at));
      const request = new Request();
      queue.add(request);
      answer(queue, request, 'x');
    }
    assert.equal(queue.full, true);
  });

  it('count by their length once they are made', () => {
    const request = new Request('GET');
    const queue = queueOf(request);
    assert.deepEqual([queue.full, queue.any, queue.newest], [true, true, request]);
    answer(queue, request, 'x'.repeat(262_143));
    assert.deepEqual([queue.full, queue.any], [false, true]);
    const more = new Request('POST');
    queue.add(more);
    answer(queue, more, 'x');
    assert.deepEqual([queue.full, queue.oldest, queue.newest], [true, request, more]);
    for (let left = 2; left > 0; left -= 1) queue.take();
    assert.deepEqual([queue.full, queue.any, queue.take()], [false, false, undefined]);
  });

  it('count no more once they have left, the bytes of a body among them', () => {
    const [bytes, text] = [new Request('GET'), new Request()];
    const queue = queueOf(bytes, text);
    bytes.answerBody = [Buffer.alloc(150_000), Buffer.alloc(50_000)];
    answer(queue, bytes, 'head');
    answer(queue, text, 'x'.repeat(100_000));
    assert.equal(queue.full, true);
    const { text: head = '', body = [] } = queue.take() ?? {};
    assert.deepEqual([head, body.map(({ length }) => length)], ['head', [150_000, 50_000]]);
    assert.deepEqual([queue.full, queue.take()?.text.length, queue.any], [false, 100_000, false]);
  });

  it('leave behind the bytes of the body before them, and before those of the next', () => {
    const requests = [new Request(), new Request('GET'), new Request('GET'), new Request()];
    const queue = queueOf(...requests);
    for (const [at, request] of requests.entries()) {
      if (request.head.method === 'GET') request.answerBody = [Buffer.from(`body ${at}`)];
      answer(queue, request, `head ${at} `);
    }
    let written = '';
    for (let calls = 0; queue.any && calls < 10; calls += 1) {
      const { text = '', body = [] } = queue.take() ?? {};
      written += text + Buffer.concat(body).toString();
    }
    assert.equal(written, 'head 0 head 1 body 1head 2 body 2head 3 ');
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
    assert.equal(queue.full, true);
    for (let calls = 0; queue.any && calls < 10; calls += 1) {
      lengths.push(queue.take()?.text.length ?? 0);
      assert.equal(queue.full, false);
    }
    assert.deepEqual(lengths, [90_000, 90_000, 90_000, 30_000]);
    const [piece, next] = [new Request(), new Request()];
    const exact = queueOf(piece, next);
    answer(exact, piece, 'x'.repeat(65_536));
    answer(exact, next, 'y');
    assert.equal(exact.take()?.text.length, 65_536);
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
