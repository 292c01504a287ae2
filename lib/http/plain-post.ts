// Parses plain requests: whole `POST /events` requests in a small part of HTTP/1.1 that every strict parser reads the
// same way (RFC 9112, sections 2 to 6 and 11), so that no request can be smuggled. Everything else goes to node:http.
import type { Answer } from './respond.ts';
import type { HttpRequest, RequestHead } from './request.ts';

/** A request that is not complete within this many bytes goes to node:http. */
const PLAIN_BYTES_MAX = 65_536;
const HEAD_BYTES_MAX = 8_192;
const FIELDS_MAX = 64;

interface Owner {
  respond(post: PlainPost, requestId: string, answer: Answer, close: boolean): void;
}

export class PlainPost implements HttpRequest, RequestHead {
  contentLength = 0;
  host: string | undefined = undefined;
  connection: string | undefined = undefined;
  length: string | undefined = undefined;
  contentType: string | undefined = undefined;
  authorization: string | undefined = undefined;
  requestId: string | undefined = undefined;
  traceparent: string | undefined = undefined;
  tracestate: string | undefined = undefined;
  body: Buffer | undefined = undefined;
  response: string | undefined = undefined;
  closes = false;
  readonly #owner: Owner;

  constructor(owner: Owner) {
    this.#owner = owner;
  }

  get head(): RequestHead {
    return this;
  }
  get method(): string {
    return 'POST';
  }
  get target(): string {
    return '/events';
  }
  receive(): never {
    throw new Error('a plain request arrives with its body');
  }
  respond(requestId: string, answer: Answer, close: boolean): void {
    this.#owner.respond(this, requestId, answer, close);
  }
}

const REQUEST_LINE = Buffer.from('POST /events HTTP/1.1\r\n');
const HEAD_END = Buffer.from('\r\n\r\n');
/** A name or an IPv4 address, with or without a port: the usual forms of RFC 9112, section 3.2. */
const HOST = /^[A-Za-z0-9.-]+(?::\d{1,5})?$/;
const DIGITS = /^\d{1,15}$/;
const KEEP_ALIVE = /^keep-alive$/i;
/** The only loops of this expression end at different characters. */
const FIELDS = /^(?:[!#$%&'*+.^_`|~\w-]+:[\t\x20-\x7e\x80-\xff]*\r\n)+$/;

/** Length of the request that `parsePost` returned last. */
export let parsedBytes = 0;

/** Parses the request that begins at `from`. */
export function parsePost(bytes: Buffer, from: number, owner: Owner): PlainPost | 'unfinished' | 'not plain' {
  const arrived = bytes.length - from;
  const comparable = Math.min(arrived, REQUEST_LINE.length);
  // Fact: a call of `compare` takes longer than this loop.
  for (let at = 0; at < comparable; at += 1) if (bytes[from + at] !== REQUEST_LINE[at]) return 'not plain';
  const end = bytes.indexOf(HEAD_END, from);
  const headBytes = end - from + 4;
  if (end === -1) return arrived > HEAD_BYTES_MAX ? 'not plain' : 'unfinished';
  if (headBytes > HEAD_BYTES_MAX) return 'not plain';
  const post = new PlainPost(owner);
  if (!readFields(bytes.toString('latin1', from + REQUEST_LINE.length, end + 2), post)) return 'not plain';
  const length = headBytes + post.contentLength;
  if (length > arrived) return length > PLAIN_BYTES_MAX ? 'not plain' : 'unfinished';
  post.body = bytes.subarray(from + headBytes, from + length);
  parsedBytes = length;
  return post;
}

const KEPT = {
  host: 'host',
  connection: 'connection',
  'content-length': 'length',
  'content-type': 'contentType',
  authorization: 'authorization',
  'x-request-id': 'requestId',
  traceparent: 'traceparent',
  tracestate: 'tracestate',
} as const satisfies Readonly<Record<string, keyof PlainPost>>;
type Field = readonly [name: string, key?: (typeof KEPT)[keyof typeof KEPT]];
/** llhttp treats Proxy-Connection as Connection. */
const NOT_PLAIN = ['expect', 'upgrade', 'trailer', 'proxy-connection', 'content-encoding', 'transfer-encoding'];
const RELEVANT: readonly Field[] = [...Object.entries(KEPT), ...NOT_PLAIN.map((name): Field => [name])];
// A request has six to ten fields, and two to four of them matter.
const BY_LENGTH = Array.from({ length: 18 }, (_, length) => RELEVANT.filter(([name]) => name.length === length));
const NONE: readonly Field[] = [];

/** Stores the fields in `post`. Returns false if they are not plain. */
function readFields(text: string, post: PlainPost): boolean {
  if (!FIELDS.test(text)) return false;
  let fields = 0;
  for (let line = 0; line < text.length; fields += 1) {
    const colon = text.indexOf(':', line);
    const end = text.indexOf('\r\n', colon);
    if (text.charCodeAt(line + 2) === 0x2d && isNamed(text, line, 'ce-')) return false;
    for (const [name, key] of BY_LENGTH[colon - line] ?? NONE) {
      if (!isNamed(text, line, name)) continue;
      if (key === undefined || post[key] !== undefined) return false;
      post[key] = valueOf(text, colon, end);
    }
    line = end + 2;
  }
  const { host = '', connection = 'keep-alive', length = '' } = post;
  post.contentLength = Number(length);
  return fields <= FIELDS_MAX && HOST.test(host) && DIGITS.test(length) && KEEP_ALIVE.test(connection);
}

/** Compares case-insensitively. `name` must be lowercase. */
function isNamed(text: string, from: number, name: string): boolean {
  for (let at = 0; at < name.length; at += 1) {
    const code = text.charCodeAt(from + at);
    if ((code >= 0x41 && code <= 0x5a ? code | 0x20 : code) !== name.charCodeAt(at)) return false;
  }
  return true;
}

/** Returns a field's value without the optional whitespace around it (RFC 9110, section 5.5). */
function valueOf(text: string, colon: number, end: number): string {
  let from = colon + 1;
  let to = end;
  while (from < to && isBlank(text.charCodeAt(from))) from += 1;
  while (to > from && isBlank(text.charCodeAt(to - 1))) to -= 1;
  return text.slice(from, to);
}

const isBlank = (code: number): boolean => code === 0x20 || code === 0x09;
