// The plain requests of one connection that are owed an answer, in order, and what of the answers may leave next.
//
// Invariants: answers leave in the order of the requests, and none after one that closes the connection. It knows no
// socket.
import { assert } from '../assert.ts';
import { BYTES_OWED_MAX, expectedAnswerBytes, PIECE_CHARACTERS, REQUESTS_OWED_MAX } from '../limits.ts';
import { bytesOf } from '../respond.ts';

/**
 * A request in the queue. `answer` is the whole response, as soon as there is one; where its body is given as bytes, it
 * is the head, and `answerBody` follows.
 */
export interface Owed {
  readonly head: { readonly method: string };
  readonly answer: string | undefined;
  readonly answerBody: readonly Buffer[] | undefined;
  readonly answerIsAscii: boolean;
  readonly closes: boolean;
}

/**
 * What is to be written next: one answer or several, and the body of the last where that is bytes. `closes`: and then
 * the end.
 */
export interface AnswerBatch {
  readonly text: string;
  readonly encoding: 'latin1' | 'utf8';
  readonly body: readonly Buffer[];
  readonly closes: boolean;
}

export class AnswerQueue<T extends Owed> {
  /** Not answered yet, or answered and not taken; oldest first. */
  readonly #requests: T[] = [];
  /** Bytes owed: about the length of the answers that are made, and an estimate for the others. */
  #bytes = 0;

  get any(): boolean {
    return this.#requests.length > 0;
  }

  get oldest(): T | undefined {
    return this.#requests[0];
  }

  get newest(): T | undefined {
    return this.#requests.at(-1);
  }

  /** So much is owed that no further request should be read. */
  get full(): boolean {
    return this.#requests.length >= REQUESTS_OWED_MAX || this.#bytes >= BYTES_OWED_MAX;
  }

  add(request: T): void {
    this.#requests.push(request);
    this.#bytes += expectedAnswerBytes(request.head.method);
  }

  /** `request` has its answer now. To be called once for each. */
  answered(request: T): void {
    assert(request.answer !== undefined, 'an answered request has its answer');
    this.#bytes += answerLength(request) - expectedAnswerBytes(request.head.method);
  }

  /** Nothing is owed any more for the newest, which has no answer. */
  dropNewest(): void {
    const request = this.#requests.pop();
    assert(request?.answer === undefined, 'no answer that was made is dropped');
    if (request !== undefined) this.#bytes -= expectedAnswerBytes(request.head.method);
  }

  clear(): void {
    this.#requests.length = 0;
    this.#bytes = 0;
  }

  /** The answers that are ready and not behind one that is not, up to about PIECE_CHARACTERS of them. */
  take(): AnswerBatch | undefined {
    const { length } = this.#requests;
    let text = '';
    let isAscii = true;
    let body: readonly Buffer[] = [];
    let closes = false;
    let ready = 0;
    for (; ready < length && !closes && body.length === 0 && text.length < PIECE_CHARACTERS; ready += 1) {
      const request = this.#requests[ready];
      if (request?.answer === undefined) break;
      text += request.answer;
      body = request.answerBody ?? [];
      isAscii &&= request.answerIsAscii;
      closes = request.closes;
    }
    if (ready === 0) return undefined;
    if (closes || ready === length) this.clear();
    else {
      this.#requests.splice(0, ready);
      this.#bytes -= text.length + bytesOf(body);
      assert(this.#bytes >= 0, 'no more bytes leave than were owed');
    }
    // Fact: the socket writes a latin1 string as it is, and measures and encodes a utf8 one. Nearly all answers are
    // ASCII.
    return { text, encoding: isAscii ? 'latin1' : 'utf8', body, closes };
  }
}

const answerLength = ({ answer, answerBody }: Owed): number => (answer?.length ?? 0) + bytesOf(answerBody ?? []);
