// Writes responses, as text or through node:http. Every response has X-Request-Id and Content-Length.
import { STATUS_CODES, type ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { Clock, Random } from '../process/clock.ts';

/** A field value with at least one visible character (RFC 9110, section 5.5), one character per byte. */
const FIELD_VALUE = /^[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?$/;

/** Returns `given`, the caller's X-Request-Id, if it is a legal field value; otherwise a new UUID. */
export function requestIdFrom(given: string | undefined, random: Random): string {
  return given !== undefined && FIELD_VALUE.test(given) ? given : random.uuid();
}

/**
 * A response without its common header fields. `headers` are alternating names and values. A long body should be a
 * list of buffers, because a string is copied more than once.
 */
export interface Answer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string | readonly Buffer[];
  readonly headers?: readonly string[];
  /** True if the memory of the buffers may be freed after the answer, because nothing else uses them. */
  readonly isOnlyCopy?: boolean;
}

/** A long body is written in pieces of this size, each after the client has read most of the one before. */
const PIECE_BYTES = 65_536;

/** Writes `answer` through node:http. The connection stays open. */
export function respond(response: ServerResponse, requestId: string, answer: Answer): void {
  const { status, contentType, body, headers: more = [] } = answer;
  const parts = partsOf(body);
  const own = ['Content-Type', contentType, 'Content-Length', String(bytesOf(parts)), 'X-Request-Id', requestId];
  response.writeHead(status, [...own, ...more]);
  if (typeof parts === 'string') response.end(parts, 'latin1');
  else {
    if (answer.isOnlyCopy === true) response.once('close', () => parts.forEach(free));
    Readable.from(piecesOf(parts), { highWaterMark: 1 }).pipe(response);
  }
}

// Fact: V8 frees buffers only when it collects garbage, and 64 MB of buffers do not trigger a collection. Choice: free
// the memory of a large body as soon as it has been sent (test/end-to-end/connection-limits.test.ts).
function free({ buffer, byteLength }: Buffer): void {
  if (byteLength !== buffer.byteLength) return; // Other buffers may be in the same memory.
  try {
    (buffer as ArrayBuffer).transfer(0);
  } catch {
    // Node does not let the memory of short buffers be transferred. The garbage collector frees it.
  }
}

function* piecesOf(parts: readonly Buffer[]): Generator<Buffer> {
  for (const part of parts)
    for (let at = 0; at < part.length; at += PIECE_BYTES) yield part.subarray(at, at + PIECE_BYTES);
}

/** Returns a body as a string with one character per byte, or as buffers. Most bodies are ASCII strings. */
const partsOf = (body: Answer['body']): Answer['body'] =>
  typeof body !== 'string' || Buffer.byteLength(body) === body.length ? body : Buffer.from(body).toString('latin1');

export const bytesOf = (parts: Answer['body']): number =>
  typeof parts === 'string' ? parts.length : parts.reduce((bytes, part) => bytes + part.length, 0);

let latestStatus = 0;
let statusLine = '';

/**
 * Returns a whole response (RFC 9112, section 4) as a string with one character per byte, without a body of buffers.
 * `tail` ends the head: see HeadTail. `headOnly` leaves the body out.
 */
export function responseText(requestId: string, answer: Answer, tail: string, headOnly = false): string {
  const { status, contentType, headers } = answer;
  const parts = partsOf(answer.body);
  if (status !== latestStatus) {
    latestStatus = status;
    statusLine = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nContent-Type: `;
  }
  let more = '';
  if (headers !== undefined)
    for (let at = 0; at + 1 < headers.length; at += 2) more += `${headers[at]}: ${headers[at + 1]}\r\n`;
  const body = headOnly || typeof parts !== 'string' ? '' : parts;
  return `${statusLine}${contentType}\r\nContent-Length: ${bytesOf(parts)}\r\nX-Request-Id: ${requestId}\r\n${more}${tail}${body}`;
}

/** The last lines of a head: the date, the lines about the connection, and the empty line. */
export class HeadTail {
  readonly #lines: string;
  #second = 0;
  #text = '';

  /** `connection` contains the lines about the connection, each with its line ending. */
  constructor(connection: string) {
    this.#lines = connection;
  }

  // Fact: formatting a date takes longer than the rest of a head. Choice: format it once a second.
  at(epochMs: number): string {
    const second = Math.floor(epochMs / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#text = `Date: ${new Date(second * 1000).toUTCString()}\r\n${this.#lines}\r\n`;
    }
    return this.#text;
  }
}

export const CLOSING = new HeadTail('Connection: close\r\n');

/** Returns a response after which the connection closes. */
export const lastResponse = (requestId: string, answer: Answer, clock: Clock): string =>
  responseText(requestId, answer, CLOSING.at(clock.epochMs()));
