// Parses the heads of plain requests.
//
// Plain requests use a small part of HTTP/1.1: GET or POST, an origin-form target, CRLF line endings, field names
// that are tokens directly followed by a colon, values of visible ASCII, space and tab, one Host, a body of announced
// length or none, and none of the fields below in a form that affects the connection. Everything else, valid or not,
// is `not plain` and goes to a complete HTTP parser. So every strict parser reads a plain head in the same way (RFC
// 9112, sections 2 to 6 and 11), and no request can be smuggled.
import type { HeaderField, RequestHead } from '../request.ts';

/** Maximum length of a plain head. A bearer token of a few kilobytes fits. */
export const PLAIN_HEAD_BYTES_MAX = 8_192;

export class PlainHead implements RequestHead {
  readonly method: 'GET' | 'POST';
  readonly target: string;
  readonly defect = undefined;
  readonly fieldCount: number = 0;
  readonly hasHost: boolean = false;
  /** Length of the head, including the empty line. */
  readonly bytes: number = 0;
  readonly contentLength: number | undefined = undefined;
  readonly contentType: string | undefined = undefined;
  readonly contentEncoding: string | undefined = undefined;
  readonly authorization: string | undefined = undefined;
  readonly requestId: string | undefined = undefined;
  readonly cloudEventFields: HeaderField[] | undefined = undefined;
  readonly traceparent: string | undefined = undefined;
  readonly tracestate: string | undefined = undefined;

  constructor(method: 'GET' | 'POST', target: string) {
    this.method = method;
    this.target = target;
  }
}

type UnfinishedHead = { -readonly [Field in keyof PlainHead]: PlainHead[Field] };

const TOKEN = 1;
const VALUE = 2;
const TARGET = 4;

/** For each character, the parts of a head in which it may occur. */
const CLASSES = new Uint8Array(256);
for (const character of "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") {
  CLASSES[character.charCodeAt(0)] = TOKEN;
}
for (let code = 0x20; code <= 0x7e; code += 1)
  CLASSES[code] = (CLASSES[code] ?? 0) | VALUE | (code > 0x20 ? TARGET : 0);
CLASSES[0x09] = VALUE;

const CR = 0x0d;
const LF = 0x0a;
const SPACE = 0x20;
const TAB = 0x09;
const COLON = 0x3a;
const HYPHEN = 0x2d;

const VERSION = ' HTTP/1.1\r\n';
/** A name or an IPv4 address, with or without a port: the usual forms of RFC 9112, section 3.2. */
const HOST = /^[A-Za-z0-9.-]+(?::\d{1,5})?$/;
const DIGITS = /^\d{1,15}$/;

// Fact: ten heads of 7.3 KB in one-byte records took 2.8 s, because each record caused a scan from the beginning.
// Choice: the scan keeps its position between calls.
export class HeadReader {
  /** `undefined` until the request line is complete. */
  #head: UnfinishedHead | undefined;
  /** The positions of the current line, of its colon (-1 until it is found), and of the scan. */
  #line = 0;
  #colon = -1;
  #at = 0;

  /**
   * Parses the head at the beginning of `text`, which has one character per byte. After `unfinished`, call this again
   * with the same text followed by more input.
   */
  read(text: string): PlainHead | 'unfinished' | 'not plain' {
    const outcome = this.#head === undefined ? this.#readFirstLine(text) : this.#readFields(text, this.#head);
    if (outcome !== 'unfinished') {
      this.#head = undefined;
      this.#colon = -1;
      this.#at = 0;
    }
    return outcome;
  }

  #readFirstLine(text: string): PlainHead | 'unfinished' | 'not plain' {
    const method = text.startsWith('POST /') ? 'POST' : text.startsWith('GET /') ? 'GET' : undefined;
    if (method === undefined) return 'POST /'.startsWith(text) || 'GET /'.startsWith(text) ? 'unfinished' : 'not plain';
    const from = method.length + 1;
    let at = this.#at > from ? this.#at : from;
    while (classAt(text, at) & TARGET) at += 1;
    this.#at = at;
    if (!text.startsWith(VERSION, at)) return VERSION.startsWith(text.slice(at)) ? 'unfinished' : 'not plain';
    const head: UnfinishedHead = new PlainHead(method, text.slice(from, at));
    this.#head = head;
    this.#line = at + VERSION.length;
    this.#at = this.#line;
    return this.#readFields(text, head);
  }

  #readFields(text: string, head: UnfinishedHead): PlainHead | 'unfinished' | 'not plain' {
    let at = this.#at;
    let line = this.#line;
    let colon = this.#colon;
    while (at > line || text.charCodeAt(at) !== CR) {
      if (colon === -1) {
        while (classAt(text, at) & TOKEN) at += 1;
        if (at >= text.length) return this.#pause(line, -1, at);
        if (at === line || text.charCodeAt(at) !== COLON) return 'not plain';
        colon = at;
        at += 1;
      }
      while (classAt(text, at) & VALUE) at += 1;
      if (text.charCodeAt(at) !== CR || text.charCodeAt(at + 1) !== LF) {
        return isCutAt(text, at) ? this.#pause(line, colon, at) : 'not plain';
      }
      if (!takeField(head, text, line, colon, at)) return 'not plain';
      head.fieldCount += 1;
      at += 2;
      line = at;
      colon = -1;
    }
    if (text.charCodeAt(at + 1) !== LF) return isCutAt(text, at) ? this.#pause(line, colon, at) : 'not plain';
    if (!head.hasHost) return 'not plain';
    head.bytes = at + 2;
    return head;
  }

  #pause(line: number, colon: number, at: number): 'unfinished' {
    this.#line = line;
    this.#colon = colon;
    this.#at = at;
    return 'unfinished';
  }
}

/** True if the line ending expected at `at` is missing because the text ends there. */
function isCutAt(text: string, at: number): boolean {
  return at >= text.length || (at + 1 === text.length && text.charCodeAt(at) === CR);
}

const classAt = (text: string, at: number): number => CLASSES[text.charCodeAt(at)] ?? 0;

// Fact: a request has six to ten fields; two to four of them matter. Choice: compare only names of a relevant length.
/** Stores a field in `head`. Returns false if the field makes the request not plain. */
function takeField(head: UnfinishedHead, text: string, name: number, colon: number, end: number): boolean {
  // The third character alone excludes nearly all other fields.
  if (text.charCodeAt(name + 2) === HYPHEN && isNamed(text, name, name + 3, 'ce-')) {
    head.cloudEventFields ??= [];
    head.cloudEventFields.push([text.slice(name, colon).toLowerCase(), valueOf(text, colon, end)]);
    return true;
  }
  switch (colon - name) {
    case 4:
      if (!isNamed(text, name, colon, 'host')) return true;
      if (head.hasHost || !HOST.test(valueOf(text, colon, end))) return false;
      head.hasHost = true;
      return true;
    case 6:
      return !isNamed(text, name, colon, 'expect');
    case 7:
      return !isNamed(text, name, colon, 'upgrade') && !isNamed(text, name, colon, 'trailer');
    case 10:
      if (isNamed(text, name, colon, 'tracestate')) {
        head.tracestate = joined(head.tracestate, valueOf(text, colon, end));
        return true;
      }
      return !isNamed(text, name, colon, 'connection') || valueOf(text, colon, end).toLowerCase() === 'keep-alive';
    case 11:
      if (isNamed(text, name, colon, 'traceparent'))
        head.traceparent = joined(head.traceparent, valueOf(text, colon, end));
      return true;
    case 12:
      if (isNamed(text, name, colon, 'content-type')) {
        if (head.contentType !== undefined) return false;
        head.contentType = valueOf(text, colon, end);
      } else if (isNamed(text, name, colon, 'x-request-id')) {
        if (head.requestId !== undefined) return false;
        head.requestId = valueOf(text, colon, end);
      }
      return true;
    case 13:
      if (!isNamed(text, name, colon, 'authorization')) return true;
      if (head.authorization !== undefined) return false;
      head.authorization = valueOf(text, colon, end);
      return true;
    case 14: {
      if (!isNamed(text, name, colon, 'content-length')) return true;
      const length = valueOf(text, colon, end);
      if (head.contentLength !== undefined || !DIGITS.test(length)) return false;
      head.contentLength = Number(length);
      return true;
    }
    case 16:
      if (isNamed(text, name, colon, 'proxy-connection')) return false; // llhttp treats this field as Connection.
      if (!isNamed(text, name, colon, 'content-encoding')) return true;
      if (head.contentEncoding !== undefined) return false;
      head.contentEncoding = valueOf(text, colon, end);
      return true;
    case 17:
      return !isNamed(text, name, colon, 'transfer-encoding');
    default:
      return true;
  }
}

/** Compares case-insensitively. `name` must be lowercase. */
function isNamed(text: string, from: number, to: number, name: string): boolean {
  for (let at = from; at < to; at += 1) {
    const code = text.charCodeAt(at);
    const lower = code >= 0x41 && code <= 0x5a ? code | 0x20 : code;
    if (lower !== name.charCodeAt(at - from)) return false;
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

const joined = (before: string | undefined, more: string): string =>
  before === undefined ? more : `${before}, ${more}`;

const isBlank = (code: number): boolean => code === SPACE || code === TAB;
