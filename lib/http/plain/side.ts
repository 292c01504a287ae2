// Reads the plain requests of one connection, and writes their answers in order.
//
// Fact: of 78 µs that an empty node:https server uses for a request, 38 are node's streams, timers and messages around
// the parser, not TLS or the kernel (a server that reads and answers on the socket: 40 µs). Choice: plain requests are
// read here; with the first one that is not, the connection goes to node:http for good, with every byte that was not
// read yet.
//
// Invariants: nothing that has come is lost: it is read, handed over, or an answer has said that the connection closes.
// While bytes wait that may not be read yet, the connection is paused, so they are one read of the socket at most.
import type { Clock } from '../../process/clock.ts';
import { assert } from '../assert.ts';
import type { Side, Wire } from '../side.ts';
import { AnswerQueue } from './answer-queue.ts';
import type { PlainHead } from './head.ts';
import { PlainParser } from './parser.ts';
import { PlainRequest, type PlainOwner } from './request.ts';

export class PlainSide implements Side, PlainOwner {
  readonly unwrittenBytes = 0;
  readonly #wire: Wire;
  readonly #parser = new PlainParser();
  readonly #answers = new AnswerQueue<PlainRequest>();
  /** Whose body is still to come. */
  #arriving: PlainRequest | undefined;
  #requests = 0;
  #headSinceMs: number | undefined;
  #clientEnded = false;

  constructor(wire: Wire) {
    this.#wire = wire;
  }

  get busy(): boolean {
    return this.#answers.any || this.#arriving !== undefined || this.#parser.unread > 0;
  }

  get owing(): boolean {
    const { oldest } = this.#answers;
    return oldest !== undefined && oldest.answer === undefined;
  }

  get requests(): number {
    return this.#requests;
  }

  get headSinceMs(): number | undefined {
    return this.#headSinceMs;
  }

  get bodySinceMs(): number | undefined {
    return this.#arriving?.startMs;
  }

  get keepAlive(): string {
    return this.#wire.keepAlive;
  }

  get clock(): Clock {
    return this.#wire.clock;
  }

  get gone(): boolean {
    return this.#wire.state === 'closed';
  }

  isLatest(request: PlainRequest): boolean {
    if (this.#answers.newest !== request || this.#parser.inHead) return false;
    return this.#parser.unread <= (this.#arriving?.bytesMissing ?? 0);
  }

  bodyDecided(): void {
    this.#wire.wake();
  }

  answered(request: PlainRequest): void {
    this.#answers.answered(request);
    if (request.closes) this.#wire.stopReading(!request.complete);
    this.#wire.wake();
  }

  feed(bytes: Buffer): void {
    this.#parser.push(bytes);
    this.#read();
  }

  feedEnd(): void {
    this.#clientEnded = true;
    this.#wire.wake();
  }

  flush(): void {
    this.#write();
    if (this.#parser.unread > 0) this.#read();
    this.#settle();
  }

  late(): boolean {
    return this.#arriving?.late() ?? false;
  }

  stop(): void {
    this.#parser.rest();
    this.#headSinceMs = undefined;
  }

  close(): void {
    this.stop();
    this.#arriving?.cut();
    this.#arriving = undefined;
    this.#answers.clear();
  }

  /** Reads what may be read now; what is left waits. */
  #read(): void {
    while (this.#wire.state === 'plain') {
      if (this.#arriving !== undefined) {
        const part = this.#arriving.takesBody ? this.#parser.body() : undefined;
        if (part === undefined) break;
        this.#arriving.take(part);
        if (this.#arriving.complete) this.#arriving = undefined;
        continue;
      }
      if (this.#answers.full || !this.#wire.writable) break;
      const head = this.#parser.next();
      if (head === 'more') break;
      if (head === 'not plain') this.#wire.prepareHandOver();
      else if (this.#begin(head).answer !== undefined && !this.#wire.mayReadOn()) break;
    }
    if (!this.#parser.inHead) this.#headSinceMs = undefined;
    else this.#headSinceMs ??= this.#wire.clock.ms();
    if (this.#parser.unread > 0 || this.#wire.state === 'handing over') this.#wire.pause();
    else this.#wire.resume();
  }

  #begin(head: PlainHead): PlainRequest {
    assert(this.#arriving === undefined, 'one body arrives at a time');
    const announced = head.contentLength ?? 0;
    const body = announced === 0 ? undefined : this.#parser.wholeBody();
    const isWhole = announced === 0 || body !== undefined;
    const request = new PlainRequest(this, head, body, isWhole ? 0 : (this.#headSinceMs ?? this.#wire.clock.ms()));
    this.#headSinceMs = undefined;
    if (!isWhole) this.#arriving = request;
    this.#answers.add(request);
    this.#requests += 1;
    this.#wire.request(request);
    return request;
  }

  #write(): void {
    while (this.#wire.writable) {
      const batch = this.#answers.take();
      if (batch === undefined) return;
      this.#wire.write(batch.text, batch.encoding);
      for (const part of batch.body) this.#wire.write(part, 'latin1');
      if (batch.closes) {
        this.#wire.end(false);
        return;
      }
    }
  }

  /** What can only be done when no answer is owed any more. */
  #settle(): void {
    const { state } = this.#wire;
    if (state !== 'plain' && state !== 'handing over') return;
    if (this.#clientEnded && this.#arriving !== undefined && this.#parser.unread === 0) this.#abort(this.#arriving);
    if (this.#answers.any || !this.#wire.writable) return;
    if (state === 'handing over') {
      assert(this.#arriving === undefined, 'no body arrives when the connection is handed over');
      this.#wire.handOver(this.#parser.rest());
    } else if (!this.#clientEnded) return;
    else if (this.#parser.inHead) this.#wire.sayLast('malformed');
    else if (this.#parser.unread === 0) this.#wire.end(false);
  }

  /** The client ended its side in the middle of a body: nothing is owed for that one any more. */
  #abort(arriving: PlainRequest): void {
    this.#arriving = undefined;
    arriving.cut();
    if (arriving.answer !== undefined) return;
    assert(this.#answers.newest === arriving, 'nothing is owed behind a body that arrives');
    this.#answers.dropNewest();
  }
}
