// The one form of a response, as text and through node:http.
//
// Invariant: every response carries X-Request-Id and Content-Length, and head and body leave in one write. A response
// that was begun or whose connection is gone is left alone.
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Clock, Random } from '../process/clock.ts';

const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** `given`, the caller's X-Request-Id, if it is 1 to 128 visible ASCII characters, else a new UUID. */
export function requestIdFrom(given: string | undefined, random: Random): string {
  return given !== undefined && REQUEST_ID.test(given) ? given : random.uuid();
}

/** The same for a request of node:http. */
export function requestIdOf(request: IncomingMessage, random: Random): string {
  const given = request.headers['x-request-id'];
  return requestIdFrom(typeof given === 'string' ? given : undefined, random);
}

/**
 * What is to be answered. `headers` are name, value, name, value …; the names below are added. A body of many kilobytes
 * is better given as parts of bytes: they are written as they are, while a string is copied more than once.
 * The caller gives them away: their memory is freed after the last byte is written.
 */
export interface Answer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string | readonly Buffer[];
  readonly headers?: readonly string[];
}

/**
 * Writes `answer`; with `close` the connection ends after it. False when the client was gone.
 * Fact: writeHead with a flat array and end with a string make one string and one write; setHeader makes a map of
 * lower-cased names first.
 */
export function respond(response: ServerResponse, requestId: string, answer: Answer, close: boolean): boolean {
  if (response.headersSent || response.destroyed) return false;
  const { status, contentType, body, headers: more } = answer;
  const bytes = bytesOf(body);
  const headers = ['Content-Type', contentType, 'Content-Length', String(bytes), 'X-Request-Id', requestId];
  if (more !== undefined) headers.push(...more);
  if (close) headers.push('Connection', 'close');
  response.writeHead(status, headers);
  // Fact: the socket writes a latin1 string as it is, and measures and encodes a utf8 one. Nearly all bodies are ASCII.
  if (typeof body === 'string') response.end(body, bytes === body.length ? 'latin1' : 'utf8');
  else {
    for (const part of body) response.write(part);
    response.end();
  }
  return true;
}

/** The length of a body, in bytes. */
export const bytesOf = (body: Answer['body']): number =>
  typeof body === 'string' ? Buffer.byteLength(body) : body.reduce((bytes, part) => bytes + part.length, 0);

/** A whole response as text, for a connection whose parser gave up: there is no request to answer. */
export function lastResponse(requestId: string, answer: Answer, clock: Clock): string {
  return responseText(requestId, answer, bytesOf(answer.body), 'Connection: close\r\n', clock);
}

/**
 * A whole response as text (RFC 9112, section 4), or its head where the body is given as bytes. `bytes` is the length
 * of the body; `connection` are the header lines that say what becomes of the connection, each with its line end.
 */
export function responseText(
  requestId: string,
  answer: Answer,
  bytes: number,
  connection: string,
  clock: Clock,
): string {
  const { status, contentType, body, headers } = answer;
  let text =
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n` +
    `Content-Type: ${contentType}\r\nContent-Length: ${bytes}\r\nX-Request-Id: ${requestId}\r\n`;
  if (headers !== undefined) {
    for (let at = 0; at + 1 < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`;
  }
  return `${text}${dateLine(clock.epochMs())}${connection}\r\n${typeof body === 'string' ? body : ''}`;
}

let dateSecond = 0;
let dateText = '';

// Fact: writing a date takes longer than the rest of a head. Choice: once a second.
/** The `Date` header line (RFC 9110, section 6.6.1). */
function dateLine(nowMs: number): string {
  const second = Math.floor(nowMs / 1000);
  if (second !== dateSecond) {
    dateSecond = second;
    dateText = `Date: ${new Date(second * 1000).toUTCString()}\r\n`;
  }
  return dateText;
}
