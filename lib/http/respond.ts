// Writes responses, as text or through node:http. Every response has X-Request-Id and Content-Length.
import { STATUS_CODES, type ServerResponse } from 'node:http';
import type { Clock, Random } from '../process/clock.ts';

const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** Returns `given`, the caller's X-Request-Id, if it is 1 to 128 visible ASCII characters; otherwise a new UUID. */
export function requestIdFrom(given: string | undefined, random: Random): string {
  return given !== undefined && REQUEST_ID.test(given) ? given : random.uuid();
}

/**
 * A response without its common header fields. `headers` are alternating names and values. A long body should be a
 * list of buffers, because a string is copied more than once. The memory of the buffers is freed after they are
 * written.
 */
export interface Answer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string | readonly Buffer[];
  readonly headers?: readonly string[];
}

/**
 * Writes `answer`. With `close`, the connection closes after it. Returns false if the request already has an answer
 * or the client is gone.
 *
 * Fact: writeHead with a flat array, followed by end with a string, results in one write. setHeader first builds a
 * map of lowercase names.
 */
export function respond(response: ServerResponse, requestId: string, answer: Answer, close: boolean): boolean {
  if (response.headersSent || response.destroyed) return false;
  const { status, contentType, body, headers: more } = answer;
  const bytes = bytesOf(body);
  const headers = ['Content-Type', contentType, 'Content-Length', String(bytes), 'X-Request-Id', requestId];
  if (more !== undefined) headers.push(...more);
  if (close) headers.push('Connection', 'close');
  response.writeHead(status, headers);
  // Fact: the socket writes a latin1 string as is, but has to measure and encode a utf8 string.
  if (typeof body === 'string') response.end(body, bytes === body.length ? 'latin1' : 'utf8');
  else {
    for (const part of body) response.write(part);
    response.end();
  }
  return true;
}

export const bytesOf = (body: Answer['body']): number =>
  typeof body === 'string' ? Buffer.byteLength(body) : body.reduce((bytes, part) => bytes + part.length, 0);

export function lastResponse(requestId: string, answer: Answer, clock: Clock): string {
  return responseText(requestId, answer, bytesOf(answer.body), 'Connection: close\r\n', clock);
}

/**
 * Returns the text of a response (RFC 9112, section 4), or of its head if the body is a list of buffers. `bytes` is
 * the length of the body. `connection` contains the header lines about the connection, each with its line ending.
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

// Fact: formatting a date takes longer than the rest of a head. Choice: format it once a second.
function dateLine(nowMs: number): string {
  const second = Math.floor(nowMs / 1000);
  if (second !== dateSecond) {
    dateSecond = second;
    dateText = `Date: ${new Date(second * 1000).toUTCString()}\r\n`;
  }
  return dateText;
}
