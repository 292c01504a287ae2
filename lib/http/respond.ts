// Answers, and responses as text. Every response has X-Request-Id and Content-Length.
import { STATUS_CODES } from 'node:http';
import type { Clock, Random } from '../process/clock.ts';

/** A field value with at least one visible character (RFC 9110, section 5.5), one character per byte. */
const FIELD_VALUE = /^[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?$/;

/** Returns the caller's X-Request-Id if it is a legal field value; otherwise a new UUID. */
export function requestIdFrom(header: string | undefined, random: Random): string {
  return header !== undefined && FIELD_VALUE.test(header) ? header : random.uuid();
}

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

const statusLine = (status: number): string => `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nContent-Type: `;
const STATUS_LINES = Array.from({ length: 600 }, (_, status) => statusLine(status));

const lengthLine = (bytes: number): string => `\r\nContent-Length: ${bytes}\r\nX-Request-Id: `;
const LENGTH_LINES = Array.from({ length: 512 }, (_, bytes) => lengthLine(bytes));

/** Returns a whole response as a string with one character per byte. */
// Few parts, and one count: 200 bytes less JavaScript heap per event.
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
  // Formatting a date takes longer than the rest of a head.
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

export const lastResponse = (requestId: string, answer: Answer, clock: Clock): string =>
  responseText(requestId, answer, closingTail(clock.epochMs()));
