// Parses plain requests: whole `POST /events` requests in a small part of HTTP/1.1.
//
// CRLF line endings, field names that are tokens directly followed by a colon, values of visible characters, space
// and tab, one Host, one Content-Length, and none of the fields below in a form that affects the connection or the
// body. Everything else, valid or not, is `not plain` and goes to node:http. So every strict parser reads a plain
// request in the same way (RFC 9112, sections 2 to 6 and 11), and no request can be smuggled.
import type { Answer } from './respond.ts';
import type { HttpRequest, RequestHead, RequestListener } from './request.ts';

/** A request that is not complete within this many bytes goes to node:http. */
export const PLAIN_BYTES_MAX = 65_536;
const HEAD_BYTES_MAX = 8_192;
const FIELDS_MAX = 64;

/** The connection of a plain request. */
interface Owner {
  respond(post: PlainPost, requestId: string, answer: Answer, close: boolean): void;
}

export class PlainPost implements HttpRequest, RequestHead {
  contentLength = -1;
  contentType: string | undefined = undefined;
  authorization: string | undefined = undefined;
  requestId: string | undefined = undefined;
  traceparent: string | undefined = undefined;
  tracestate: string | undefined = undefined;
  body: Buffer | undefined = undefined;
  listener: RequestListener | undefined = undefined;
  /** The whole response. The owner sets this and the next field. */
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

const REQUEST_LINE = 'POST /events HTTP/1.1\r\n';
const REQUEST_LINE_BYTES = Buffer.from(REQUEST_LINE);
const HEAD_END = Buffer.from('\r\n\r\n');
/** A name or an IPv4 address, with or without a port: the usual forms of RFC 9112, section 3.2. */
const HOST = /^[A-Za-z0-9.-]+(?::\d{1,5})?$/;
const DIGITS = /^\d{1,15}$/;
/** The fields: tokens directly followed by a colon, and values. Its only loops end at different characters. */
const FIELDS = /^(?:[!#$%&'*+.^_`|~\w-]+:[\t\x20-\x7e\x80-\xff]*\r\n)+$/;

/** Length of the whole request that `parsePost` returned last. */
export let parsedBytes = 0;

/** Parses the request that begins at `from`. */
export function parsePost(bytes: Buffer, from: number, owner: Owner): PlainPost | 'unfinished' | 'not plain' {
  const arrived = bytes.length - from;
  const known = Math.min(arrived, REQUEST_LINE.length);
  if (bytes.compare(REQUEST_LINE_BYTES, 0, known, from, from + known) !== 0) return 'not plain';
  const end = bytes.indexOf(HEAD_END, from);
  const headBytes = end - from + 4;
  if (end === -1) return arrived > HEAD_BYTES_MAX ? 'not plain' : 'unfinished';
  if (headBytes > HEAD_BYTES_MAX) return 'not plain';
  const post = new PlainPost(owner);
  // Without the request line, and without the second line ending of HEAD_END.
  if (!readFields(bytes.toString('latin1', from + REQUEST_LINE.length, end + 2), post)) return 'not plain';
  const length = headBytes + post.contentLength;
  if (length > arrived) return length > PLAIN_BYTES_MAX ? 'not plain' : 'unfinished';
  post.body = bytes.subarray(from + headBytes, from + length);
  parsedBytes = length;
  return post;
}

/** Returns false if the request is not plain. */
function readFields(text: string, post: PlainPost): boolean {
  if (!FIELDS.test(text)) return false;
  let host: string | undefined;
  let fields = 0;
  for (let line = 0; line < text.length; fields += 1) {
    const colon = text.indexOf(':', line);
    const end = text.indexOf('\r\n', colon);
    if (colon - line === 4 && isNamed(text, line, 'host')) {
      if (host !== undefined) return false;
      host = valueOf(text, colon, end);
      if (!HOST.test(host)) return false;
    } else if (!readField(text, line, colon, end, post)) return false;
    line = end + 2;
  }
  return host !== undefined && post.contentLength >= 0 && fields <= FIELDS_MAX;
}

type Kept = 'contentType' | 'authorization' | 'requestId' | 'traceparent' | 'tracestate';

/** Fields that a plain request may have once. */
const KEPT: readonly (readonly [name: string, key: Kept])[] = [
  ['content-type', 'contentType'],
  ['authorization', 'authorization'],
  ['x-request-id', 'requestId'],
  ['traceparent', 'traceparent'],
  ['tracestate', 'tracestate'],
];
/** llhttp treats Proxy-Connection as Connection. */
const NOT_PLAIN = ['expect', 'upgrade', 'trailer', 'proxy-connection', 'content-encoding', 'transfer-encoding'];

// Fact: a request has six to ten fields; two to four of them matter. Choice: compare only names of a relevant length.
const KEPT_BY_LENGTH = Array.from({ length: 18 }, (_, length) => KEPT.filter(([name]) => name.length === length));
const NOT_PLAIN_BY_LENGTH = KEPT_BY_LENGTH.map((_, length) => NOT_PLAIN.filter((name) => name.length === length));
const NONE = KEPT.slice(0, 0);

/** Stores a field in `post`. Returns false if the field makes the request not plain. */
function readField(text: string, name: number, colon: number, end: number, post: PlainPost): boolean {
  // The third character alone excludes nearly all other fields.
  if (text.charCodeAt(name + 2) === 0x2d && isNamed(text, name, 'ce-')) return false;
  const length = colon - name;
  if (length >= KEPT_BY_LENGTH.length) return true;
  for (const refused of NOT_PLAIN_BY_LENGTH[length] ?? []) if (isNamed(text, name, refused)) return false;
  for (const [kept, key] of KEPT_BY_LENGTH[length] ?? NONE) {
    if (!isNamed(text, name, kept)) continue;
    if (post[key] !== undefined) return false;
    post[key] = valueOf(text, colon, end);
    return true;
  }
  if (length === 10 && isNamed(text, name, 'connection')) return /^keep-alive$/i.test(valueOf(text, colon, end));
  if (length !== 14 || !isNamed(text, name, 'content-length')) return true;
  const digits = valueOf(text, colon, end);
  if (post.contentLength !== -1 || !DIGITS.test(digits)) return false;
  post.contentLength = Number(digits);
  return true;
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
