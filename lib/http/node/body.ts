// Reads the body of a request of node:http into one buffer, within a limit.
//
// Keeps the contract of RequestListener: exactly one of `bodyRead`, `bodyTooLarge` (at the first byte over the limit;
// the rest is left unread) and `bodyAborted` (the client went away) is called, once, unless the caller abandons the
// body. Listeners are three functions shared by all requests; what they need is kept on the request.
import type { IncomingMessage } from 'node:http';
import { withPiece } from '../body-pieces.ts';
import type { RequestListener } from '../request.ts';

interface Reading {
  readonly listener: RequestListener;
  readonly bytesMax: number;
  /** Undefined: no length was announced. */
  readonly announced: number | undefined;
  /** How many bytes of it have come; `body` may have room for more. */
  bytes: number;
  body: Buffer | undefined;
}

const READING = Symbol('reading');
type Request = IncomingMessage & { [READING]?: Reading | undefined };

export function readBody(request: IncomingMessage, bytesMax: number, listener: RequestListener): void {
  const length = request.headers['content-length'];
  const announced = length === undefined ? undefined : Number(length);
  (request as Request)[READING] = { listener, bytesMax, announced, bytes: 0, body: undefined };
  request.on('data', onData);
  request.on('end', onEnd);
  request.on('close', onClose);
}

/** Stops listening without a word to the listener. What still arrives is thrown away. */
export function abandonBody(request: IncomingMessage): void {
  take(request);
  request.resume();
}

function take(request: Request): Reading | undefined {
  const reading = request[READING];
  if (reading === undefined) return undefined;
  request[READING] = undefined;
  request.off('data', onData);
  return reading;
}

function onData(this: Request, chunk: Buffer): void {
  const reading = this[READING];
  if (reading === undefined) return;
  const { listener, bytesMax, announced, bytes, body } = reading;
  const end = bytes + chunk.length;
  if (end > bytesMax) {
    abandonBody(this);
    listener.bodyTooLarge();
    return;
  }
  if (announced === undefined) listener.bodyGrows(chunk.length);
  reading.bytes = end;
  reading.body =
    body === undefined ? chunk : withPiece(body, bytes, chunk, Math.min(announced ?? GROWTH * end, bytesMax));
}

function onEnd(this: Request): void {
  const reading = take(this);
  if (reading === undefined) return;
  const { body = EMPTY, bytes } = reading;
  reading.listener.bodyRead(body.length === bytes ? body : body.subarray(0, bytes));
}

function onClose(this: Request): void {
  take(this)?.listener.bodyAborted();
}

/** A body that announced no length gets room for so many times what has come of it. */
const GROWTH = 2;
const EMPTY = Buffer.alloc(0);
