// The way of a connection that has left the fast path: node:http reads its requests, orders its answers and keeps its
// time limits. This file only decides when node:http may read on, and how much.
//
// Fact: node:http handles every request of a read immediately, and one read may contain hundreds of them. Choice: the
// socket is read in slices, and only while no answer is owed. Reading a stream emits `data`, so node:http gets each
// slice (nodejs.org/api/stream.html, "readable.read([size])").
//
// Invariants: requests are handled one at a time, in order. Nothing is read after the last request.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { NodeRequest } from './node-request.ts';
import type { Path, PathOwner } from './path.ts';
import type { ProtocolFault } from './request.ts';
import { respond, responseText, type Answer } from './respond.ts';
import { NODE_COST } from './turns.ts';

const HEAD_SLICE_BYTES = 256;
const BODY_SLICE_BYTES = 65_536;
/** Slice of a body whose end is unknown. node:http needs 2 µs for each of its chunks. */
const CHUNKED_SLICE_BYTES = 1_024;

export class NodePath implements Path {
  readonly #owner: PathOwner;
  /** The request being handled, until its whole answer is written. The requests after it are in `#waiting`. */
  #current: NodeRequest | undefined;
  readonly #waiting: NodeRequest[] = [];
  #latest: NodeRequest | undefined;
  #fault: ProtocolFault | 'end of input' | undefined;
  #isReading = false;
  #isQueued = false;
  /** Requests and slices of chunked bodies since the socket last became readable. */
  #usedSinceReadable = 0;
  /** True if the beginning of a head has been read, but not its end. */
  #isInHead = false;
  /** True if anything but empty lines has been read. */
  #hasBegun = false;
  /** The last bytes of the latest slice of a head: the end of a head may be cut. */
  #sliceEnd: Buffer = NOTHING;
  /** Bytes of the latest body that have been read, without those that arrived with the head. */
  #bodyBytes = 0;
  /** Length of a long answer that is being written. */
  #answerBytes = 0;

  constructor(owner: PathOwner) {
    this.#owner = owner;
  }

  /** Passes the connection to `adopt`, node's own listener. `rest` are the bytes that have not been handled. */
  begin(adopt: () => void, rest: Buffer, hasEnded: boolean): void {
    const { socket } = this.#owner;
    socket.pause();
    if (rest.length > 0 && !hasEnded) socket.unshift(rest);
    adopt();
    socket.on('end', this.#onEnd);
    socket.on('readable', this.#onReadable);
    if (!hasEnded) return;
    // Nothing can be put back into a stream that has ended, so node's listeners get the rest from here.
    this.#hasBegun = true;
    socket.emit('data', rest);
    socket.emit('end');
  }

  get isBusy(): boolean {
    return this.owesAnswer || this.isArriving;
  }
  get owesAnswer(): boolean {
    return this.#current !== undefined || this.#waiting.length > 0;
  }
  get isArriving(): boolean {
    return this.#isInHead || this.#latest?.isComplete === false || this.#owner.socket.readableLength > 0;
  }
  get heldBytes(): number {
    return this.#answerBytes;
  }

  isLatest(request: NodeRequest): boolean {
    return this.#latest === request && this.#owner.socket.readableLength === 0;
  }

  requested(message: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void {
    if (this.#owner.isClosing || this.#latest?.isLast === true) return;
    const latest = new NodeRequest(this, message, response, expectsContinue);
    this.#latest = latest;
    this.#isInHead = false;
    this.#bodyBytes = 0;
    this.#usedSinceReadable += 1;
    response.once('close', () => {
      if (this.#current === latest) this.#current = undefined;
      this.#answerBytes = 0;
      this.#owner.guard(() => this.#next());
    });
    this.#waiting.push(latest);
    this.#next();
  }

  /** Called if node:http cannot read the next bytes, or has waited too long for them. */
  faulty(fault: ProtocolFault | 'end of input'): void {
    if (this.#latest?.isLast === true && this.#latest.isComplete) return;
    this.#fault ??= fault;
    this.#settleFault();
  }

  respond(request: NodeRequest, requestId: string, answer: Answer, close: boolean): void {
    const owner = this.#owner;
    if (owner.isClosing) return;
    if (!close && !owner.hasOneAnswer) {
      if (typeof answer.body !== 'string')
        this.#answerBytes = answer.body.reduce((bytes, part) => bytes + part.length, 0);
      respond(request.response, requestId, answer);
      this.bodyDecided();
      return;
    }
    // Node closes a connection right after its last answer, so a client that is still sending may not get to read it.
    // All earlier answers are written, so this one does not need node.
    const isToHead = request.head.method === 'HEAD';
    const parts = typeof answer.body === 'string' || isToHead ? [] : answer.body;
    const text = responseText(requestId, answer, owner.closingTail(), isToHead || parts.length > 0);
    owner.finish(text, !request.isComplete || request.isLast || owner.socket.readableLength > 0, parts);
  }

  bodyDecided(): void {
    this.#readOn();
  }

  check(): void {}

  flush(): void {
    if (this.#owner.isRetiring && !this.owesAnswer) return this.#owner.finish('', true);
    this.#readOn();
  }

  stop(): void {
    const { socket } = this.#owner;
    this.#waiting.length = 0;
    socket.off('readable', this.#onReadable);
    socket.off('end', this.#onEnd);
    // Node's parser must not read what follows the last request.
    socket.removeAllListeners('data');
  }

  /** Handles the next request. */
  #next(): void {
    const owner = this.#owner;
    if (owner.isClosing) return;
    if (this.#current === undefined) {
      if (owner.isRetiring) return owner.finish('', true);
      this.#current = this.#waiting.shift();
      if (this.#current !== undefined) owner.handle(this.#current);
    }
    if (this.#fault === undefined) this.#readOn();
    else this.#settleFault();
  }

  get #mayRead(): boolean {
    const { isClosing, socket } = this.#owner;
    if (isClosing || this.#fault !== undefined || this.#isQueued || socket.destroyed) return false;
    const latest = this.#latest;
    if (latest === undefined) return true;
    if (!latest.isComplete) return latest.isBodyDecided || latest.isAnswered;
    return !latest.isLast && !this.owesAnswer && !socket.writableNeedDrain;
  }

  #readOn(): void {
    if (this.#isReading) return; // A handler was called from the loop below.
    this.#isReading = true;
    const { socket, turns, holder } = this.#owner;
    while (this.#mayRead) {
      if (this.#usedSinceReadable > 1 && !turns.take(NODE_COST)) {
        this.#isQueued = true;
        turns.later(holder, this.#goOn);
        break;
      }
      if (socket.readableLength === 0) {
        socket.read(); // Lets the stream read on, or end.
        break;
      }
      this.#readSlice();
    }
    this.#isReading = false;
  }

  #readSlice(): void {
    const { socket } = this.#owner;
    const latest = this.#latest;
    const isInBody = latest?.isComplete === false;
    const size = Math.min(isInBody ? this.#bodySliceBytes(latest) : HEAD_SLICE_BYTES, socket.readableLength);
    const slice = socket.read(size) as Buffer | null;
    if (slice === null) return;
    if (isInBody) {
      this.#bodyBytes += size;
      return;
    }
    if (this.#latest === latest) {
      this.#isInHead ||= slice.some(isNoLineEnd);
      this.#hasBegun ||= this.#isInHead;
    } else {
      const { isComplete = false, head } = this.#latest ?? {};
      this.#isInHead = isComplete && !endsWithRequest(Buffer.concat([this.#sliceEnd, slice]), head?.contentLength);
      this.#hasBegun = true;
    }
    this.#sliceEnd = slice.subarray(-3);
  }

  #bodySliceBytes(latest: NodeRequest): number {
    const { contentLength } = latest.head;
    if (contentLength === undefined) {
      this.#usedSinceReadable += 1;
      latest.slices += 1;
      return CHUNKED_SLICE_BYTES;
    }
    return Math.min(Math.max(contentLength - this.#bodyBytes, HEAD_SLICE_BYTES), BODY_SLICE_BYTES);
  }

  readonly #goOn = (): void => {
    this.#isQueued = false;
    this.#owner.guard(() => this.#readOn());
  };

  readonly #onReadable = (): void => {
    this.#usedSinceReadable = 0;
    this.#owner.guard(() => this.#readOn());
  };

  readonly #onEnd = (): void => {
    // If a body after `Upgrade` is cut short, node:http reports no error and waits for the rest forever.
    if (this.#latest?.isComplete === false) this.faulty('end of input');
  };

  #settleFault(): void {
    const owner = this.#owner;
    const fault = this.#fault;
    const latest = this.#latest;
    if (fault === undefined || owner.isClosing) return;
    if (latest?.isComplete === false) {
      if (this.#current !== latest && this.owesAnswer) return;
      // A request whose body ends early gets no answer.
      if (fault === 'end of input' || latest.isAnswered || !latest.fault(fault)) owner.finish('', true);
    } else if (!this.owesAnswer) {
      if (fault === 'timeout' && !this.#hasBegun) owner.finish('', false);
      else owner.finishWithFault(fault === 'end of input' ? 'malformed' : fault);
    }
  }
}

const NOTHING = Buffer.alloc(0);
const HEAD_END = Buffer.from('\r\n\r\n');
const isNoLineEnd = (byte: number): boolean => byte !== 0x0d && byte !== 0x0a;

/** True if the last request in `bytes`, whose head ends there, ends with them, apart from empty lines. */
function endsWithRequest(bytes: Buffer, contentLength = 0): boolean {
  const last = bytes.findLastIndex(isNoLineEnd);
  for (let at = bytes.indexOf(HEAD_END); at !== -1; at = bytes.indexOf(HEAD_END, at + 1)) {
    const end = at + HEAD_END.length + contentLength;
    if (end > last && end <= bytes.length) return true;
  }
  return false;
}
