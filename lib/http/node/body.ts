// Reads the body of a request of node:http into one buffer, within a limit.
//
// Keeps the contract of RequestListener: exactly one of `bodyRead`, `bodyTooLarge` (at the first byte over the limit;
// the rest is left unread) and `bodyAborted` (the client went away) is called, once, unless the caller abandons the
// body. Listeners are three functions shared by all requests; what they need is kept on the request.
import type { IncomingMessage } from 'node:http';
import type { RequestListener } from '../request.ts';

interface Reading {
  readonly listener: RequestListener;
  readonly bytesMax: number;
  readonly unannounced: boolean;
  bytes: number;
  // Fact: a small body arrives as one chunk. Choice: the list of chunks is made for the second one only.
  first: Buffer | undefined;
  rest: Buffer[] | undefined;
}

const READING = Symbol('reading');
type Request = IncomingMessage & { [READING]?: Reading | undefined };

export function readBody(request: IncomingMessage, bytesMax: number, listener: RequestListener): void {
  const unannounced = request.headers['content-length'] === undefined;
  (request as Request)[READING] = { listener, bytesMax, unannounced, bytes: 0, first: undefined, rest: undefined };
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
  reading.bytes += chunk.length;
  if (reading.bytes > reading.bytesMax) {
    abandonBody(this);
    reading.listener.bodyTooLarge();
    return;
  }
  if (reading.unannounced) reading.listener.bodyGrows(chunk.length);
  if (reading.first === undefined) {
    reading.first = chunk;
  } else {
    (reading.rest ??= [reading.first]).push(chunk);
  }
}

function onEnd(this: Request): void {
  const reading = take(this);
  if (reading === undefined) return;
  reading.listener.bodyRead(
    reading.rest === undefined ? (reading.first ?? EMPTY) : Buffer.concat(reading.rest, reading.bytes),
  );
}

function onClose(this: Request): void {
  take(this)?.listener.bodyAborted();
}

const EMPTY = Buffer.alloc(0);
