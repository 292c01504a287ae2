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

/** A response without its common header fields. */
export interface Answer {
  readonly status: number;
  readonly contentType: string;
  /** A long body should be a list of buffers, because a string is copied more than once. */
  readonly body: string | readonly Buffer[];
  /** Alternating names and values. */
  readonly headers?: readonly string[];
  /** True if the memory of the buffers may be freed after the answer, because nothing else uses them. */
  readonly isOnlyCopy?: boolean;
}

export const bytesOf = (body: Answer['body']): number =>
  typeof body === 'string' ? Buffer.byteLength(body) : body.reduce((bytes, part) => bytes + part.length, 0);

/** A long body is written in pieces of this size, each after the client has read most of the one before. */
const PIECE_BYTES = 65_536;

/** Writes `answer` through node:http. The connection stays open. */
export function respond(response: ServerResponse, requestId: string, answer: Answer): void {
  const { status, contentType, body, headers: more = [] } = answer;
  const own = ['Content-Type', contentType, 'Content-Length', String(bytesOf(body)), 'X-Request-Id', requestId];
  response.writeHead(status, [...own, ...more]);
  // Node writes the head in the encoding of a body that is a string, and a request id has one byte per character.
  if (typeof body === 'string') return void response.end(Buffer.from(body).toString('latin1'), 'latin1');
  if (answer.isOnlyCopy === true) response.once('close', () => body.forEach(free));
  Readable.from(piecesOf(body), { highWaterMark: 1 }).pipe(response);
}

function* piecesOf(parts: readonly Buffer[]): Generator<Buffer> {
  for (const part of parts)
    for (let at = 0; at < part.length; at += PIECE_BYTES) yield part.subarray(at, at + PIECE_BYTES);
}

// Fact: V8 frees buffers only when it collects garbage, and 64 MB of buffers do not trigger a collection. Choice: free
// the memory of a large body as soon as it has been sent (test/end-to-end/held-memory.long.ts).
function free({ buffer, byteLength }: Buffer): void {
  if (byteLength !== buffer.byteLength) return; // Other buffers may be in the same memory.
  try {
    (buffer as ArrayBuffer).transfer(0);
  } catch {
    // Node does not let the memory of short buffers be transferred. The garbage collector frees it.
  }
}

const statusLine = (status: number): string => `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nContent-Type: `;
const STATUS_LINES = Array.from({ length: 600 }, (_, status) => statusLine(status));

const lengthLine = (bytes: number): string => `\r\nContent-Length: ${bytes}\r\nX-Request-Id: `;
const LENGTH_LINES = Array.from({ length: 512 }, (_, bytes) => lengthLine(bytes));

/**
 * Returns a whole response (RFC 9112, section 4) as a string with one character per byte. `tail` ends the head: see
 * `headTail`.
 *
 * Fact: a joined string has an object for each part, and its bytes can be counted only in a copy. Choice: few parts,
 * and only the whole response is counted, whose copy is written. Effect: 200 bytes less JavaScript heap per event.
 */
export function responseText(requestId: string, answer: Answer, tail: string): string {
  const text = typeof answer.body === 'string' ? answer.body : Buffer.concat(answer.body).toString();
  const whole = head(requestId, answer, tail, text.length) + text;
  if (Buffer.byteLength(whole) === whole.length) return whole;
  const bytes = Buffer.from(text).toString('latin1');
  return head(requestId, answer, tail, bytes.length) + bytes;
}

function head(requestId: string, { status, contentType, headers }: Answer, tail: string, bytes: number): string {
  let more = '';
  if (headers !== undefined)
    for (let at = 0; at + 1 < headers.length; at += 2) more += `\r\n${headers[at]}: ${headers[at + 1]}`;
  const length = LENGTH_LINES[bytes] ?? lengthLine(bytes);
  return `${STATUS_LINES[status]}${contentType}${length}${requestId}${more}${tail}`;
}

/** Returns a function that makes the last lines of a head: the date, `connection`, and the empty line. */
export function headTail(connection: string): (epochMs: number) => string {
  let second = 0;
  let text = '';
  // Fact: formatting a date takes longer than the rest of a head. Choice: format it once a second.
  return (epochMs) => {
    const now = Math.floor(epochMs / 1000);
    if (now !== second) {
      second = now;
      text = `\r\nDate: ${new Date(now * 1000).toUTCString()}\r\n${connection}\r\n\r\n`;
    }
    return text;
  };
}

export const closingTail = headTail('Connection: close');

/** Returns a response after which the connection closes. */
export const lastResponse = (requestId: string, answer: Answer, clock: Clock): string =>
  responseText(requestId, answer, closingTail(clock.epochMs()));
