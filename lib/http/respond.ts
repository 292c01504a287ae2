// The one place that writes a response.
//
// Invariant: every response carries X-Request-Id and Content-Length, and head and body leave in one write. A response
// that was begun or whose connection is gone is left alone.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';

const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** The caller's X-Request-Id if it is 1 to 128 visible ASCII characters, else a new UUID. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID();
}

/** What is to be answered. `headers` are name, value, name, value …; the names below are added. */
export interface Answer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
  readonly headers?: readonly string[];
}

/** Writes `answer`; with `close` the connection ends after it. False when there was nobody to write to. */
export function respond(response: ServerResponse, requestId: string, answer: Answer, close: boolean): boolean {
  return respondWith(response, requestId, answer.status, answer.contentType, answer.body, close, answer.headers);
}

/**
 * The same, without an object for the answer (the hot path).
 * Fact: writeHead with a flat array and end with a string make one string and one write; setHeader makes a map of
 * lower-cased names first.
 */
export function respondWith(
  response: ServerResponse,
  requestId: string,
  status: number,
  contentType: string,
  body: string,
  close: boolean,
  extra?: readonly string[],
): boolean {
  if (response.headersSent || response.destroyed) return false;
  const bytes = Buffer.byteLength(body);
  const headers = [
    'Content-Type', contentType,
    'Content-Length', String(bytes),
    'X-Request-Id', requestId,
  ];
  if (extra !== undefined) headers.push(...extra);
  if (close) headers.push('Connection', 'close');
  response.writeHead(status, headers);
  // Fact: the socket writes a latin1 string as it is, and measures and encodes a utf8 one. Nearly all bodies are ASCII.
  response.end(body, bytes === body.length ? 'latin1' : 'utf8');
  return true;
}

/** A whole response as text, for a connection whose parser gave up: there is no response object for it. */
export function rawResponse(requestId: string, reasonPhrase: string, answer: Answer): string {
  let head = `HTTP/1.1 ${answer.status} ${reasonPhrase}\r\nDate: ${new Date().toUTCString()}\r\n`;
  head += `Content-Type: ${answer.contentType}\r\nContent-Length: ${Buffer.byteLength(answer.body)}\r\n`;
  head += `X-Request-Id: ${requestId}\r\n`;
  const extra = answer.headers ?? [];
  for (let at = 0; at + 1 < extra.length; at += 2) head += `${extra[at]}: ${extra[at + 1]}\r\n`;
  return `${head}Connection: close\r\n\r\n${answer.body}`;
}
