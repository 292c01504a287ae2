// Reads the head of a plain request, and knows which ones are plain.
//
// Plain is a small part of what HTTP/1.1 allows: GET or POST, an origin-form target, CRLF line ends, field names that are
// tokens directly before their colon, values of visible ASCII, space and tab, a body of an announced length or none, and
// none of the fields below in a form that means something to the connection. Everything else, wrong or only unusual, is
// not judged here: `not plain` says that a whole HTTP parser has to look at it. So whatever is read here every strict
// parser reads in the same way (RFC 9112, sections 2 to 6 and 11), and there is nothing to smuggle.

/** The longest head that is looked at, in bytes. A bearer token of some kilobytes fits. */
export const PLAIN_HEAD_BYTES_MAX = 8_192;

export class RequestHead {
  readonly method: 'GET' | 'POST';
  readonly target: string;
  fieldCount = 0;
  /** From the request line to the empty line, both included. */
  bytes = 0;
  /** Undefined: no body. */
  contentLength: number | undefined = undefined;
  contentType: string | undefined = undefined;
  contentEncoding: string | undefined = undefined;
  authorization: string | undefined = undefined;
  requestId: string | undefined = undefined;

  constructor(method: 'GET' | 'POST', target: string) {
    this.method = method;
    this.target = target;
  }
}

const TOKEN = 1;
const VALUE = 2;
const TARGET = 4;

/** What a character may be part of. */
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

const VERSION = ' HTTP/1.1\r\n';
const DIGITS = /^\d{1,15}$/;

/**
 * The head that `text` (one character for each byte) begins with; `unfinished` where the text ends before it does and
 * all so far is plain.
 */
export function readHead(text: string): RequestHead | 'unfinished' | 'not plain' {
  const method = text.startsWith('POST /') ? 'POST' : text.startsWith('GET /') ? 'GET' : undefined;
  if (method === undefined) return 'POST /'.startsWith(text) || 'GET /'.startsWith(text) ? 'unfinished' : 'not plain';
  const from = method.length + 1;
  let at = from;
  while (classAt(text, at) & TARGET) at += 1;
  const target = text.slice(from, at);
  if (!text.startsWith(VERSION, at)) return VERSION.startsWith(text.slice(at)) ? 'unfinished' : 'not plain';
  at += VERSION.length;

  const head = new RequestHead(method, target);
  while (text.charCodeAt(at) !== CR) {
    const name = at;
    while (classAt(text, at) & TOKEN) at += 1;
    const colon = at;
    if (at >= text.length) return 'unfinished';
    if (colon === name || text.charCodeAt(at) !== COLON) return 'not plain';
    at += 1;
    while (classAt(text, at) & VALUE) at += 1;
    if (text.charCodeAt(at) !== CR || text.charCodeAt(at + 1) !== LF) return endOr(text, at);
    if (!takeField(head, text, name, colon, at)) return 'not plain';
    head.fieldCount += 1;
    at += 2;
  }
  if (text.charCodeAt(at + 1) !== LF) return endOr(text, at);
  head.bytes = at + 2;
  return head;
}

/** At `at` a line end is wanted and not there: because the text ends, or because something else is. */
function endOr(text: string, at: number): 'unfinished' | 'not plain' {
  return at >= text.length || (at + 1 === text.length && text.charCodeAt(at) === CR) ? 'unfinished' : 'not plain';
}

const classAt = (text: string, at: number): number => CLASSES[text.charCodeAt(at)] ?? 0;

// Fact: of the usual six to ten fields of a request, two to four matter here. Choice: the length of a name says which one
// it can be, and only then is it cut out and compared.
/** Notes what matters of one field. False where the request is not plain because of it. */
function takeField(head: RequestHead, text: string, name: number, colon: number, end: number): boolean {
  switch (colon - name) {
    case 6: // expect
      return !isNamed(text, name, colon, 'expect');
    case 7:
      return !isNamed(text, name, colon, 'upgrade') && !isNamed(text, name, colon, 'trailer');
    case 10:
      return !isNamed(text, name, colon, 'connection') || valueOf(text, colon, end).toLowerCase() === 'keep-alive';
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
      if (isNamed(text, name, colon, 'proxy-connection')) return false; // llhttp takes it for Connection.
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

/** `wanted` is in lower case; letters count in either case. */
function isNamed(text: string, from: number, to: number, wanted: string): boolean {
  for (let at = from; at < to; at += 1) {
    const code = text.charCodeAt(at);
    const lower = code >= 0x41 && code <= 0x5a ? code | 0x20 : code;
    if (lower !== wanted.charCodeAt(at - from)) return false;
  }
  return true;
}

/** The value between the colon and the line's end, without the optional white space around it (RFC 9110, section 5.5). */
function valueOf(text: string, colon: number, end: number): string {
  let from = colon + 1;
  let to = end;
  while (from < to && isBlank(text.charCodeAt(from))) from += 1;
  while (to > from && isBlank(text.charCodeAt(to - 1))) to -= 1;
  return text.slice(from, to);
}

const isBlank = (code: number): boolean => code === SPACE || code === TAB;
