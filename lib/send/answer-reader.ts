// Reads the answers on one connection, in order (RFC 9112): final answers with a length, in chunks, or until the end of
// the connection. Interim answers (1xx) are skipped.
//
// If several requests share a connection, a framing mistake could make one answer look like two, or two like one.
// Therefore everything that RFC 9112 calls a recoverable mistake is refused, and the connection must be closed.
//
// Limits: 16 KiB of header fields, 64 KiB of body, 80 KiB with its chunk sizes, and 16 interim answers. Gateways send
// less.

export interface GatewayAnswer {
  readonly status: number;
  /** The header fields by their names in lower case. */
  readonly fields: ReadonlyMap<string, string>;
  readonly body: string;
  /** True if the server closes the connection after this answer. */
  readonly isLast: boolean;
}

interface Head extends Omit<GatewayAnswer, 'body'> {
  /** The length of the body. Infinity: the body ends with the connection. */
  readonly framing: number | 'chunked';
}

const HEAD_BYTES_MAX = 16_384;
const BODY_BYTES_MAX = 65_536;
const CODED_BYTES_MAX = HEAD_BYTES_MAX + BODY_BYTES_MAX;
const INTERIM_MAX = 16;

const START = Buffer.from('HTTP/1.');
const LINE_END = Buffer.from('\r\n');
const HEAD_END = Buffer.from('\r\n\r\n');
const NOTHING = Buffer.alloc(0);
// eslint-disable-next-line no-control-regex -- the expression excludes them
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [^\0-\x08\x0a-\x1f\x7f]*)?$/;
// eslint-disable-next-line no-control-regex -- the expression excludes them
const FIELD = /^([!#$%&'*+.^_`|~\w-]+):[ \t]*((?:[^\0-\x20\x7f](?:[^\0-\x08\x0a-\x1f\x7f]*[^\0-\x20\x7f])?)?)[ \t]*$/;
/** Chunk extensions are ignored. */
const CHUNK_SIZE = /^([0-9a-f]{1,8})[ \t]*(?:;.*)?$/i;

export class AnswerReader {
  #bytes: Buffer = NOTHING;
  #head: Head | undefined;
  #interim = 0;

  add(chunk: Buffer): void {
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
  }

  /** False if the reader has received part of an answer. */
  get isEmpty(): boolean {
    return this.#bytes.length === 0 && this.#head === undefined && this.#interim === 0;
  }

  /**
   * Returns the next complete answer, or undefined if there is none yet. `isEnd` is true if the server has closed the
   * connection. Throws if the bytes are not an answer, in which case the caller must close the connection.
   */
  next(isEnd = false): GatewayAnswer | undefined {
    for (; this.#head === undefined; this.#interim += 1) {
      const end = this.#headEnd();
      if (end === undefined) return undefined;
      if (this.#interim > INTERIM_MAX) throw new Error(`more than ${INTERIM_MAX} interim answers`);
      this.#head = headOf(this.#bytes.toString('latin1', 0, end));
      this.#bytes = this.#bytes.subarray(end + HEAD_END.length);
    }
    const { framing, ...head } = this.#head;
    const [body, rest] = bodyIn(this.#bytes, framing, isEnd) ?? [];
    if (body === undefined ? this.#bytes.length > CODED_BYTES_MAX : body.length > BODY_BYTES_MAX)
      throw new Error(`the answer is longer than ${BODY_BYTES_MAX} bytes`);
    if (body === undefined || rest === undefined) return undefined;
    [this.#head, this.#interim, this.#bytes] = [undefined, 0, rest];
    return { ...head, body: body.toString('utf8') };
  }

  #headEnd(): number | undefined {
    const end = this.#bytes.indexOf(HEAD_END);
    if ((end === -1 ? this.#bytes.length : end) > HEAD_BYTES_MAX)
      throw new Error(`the header of the answer is longer than ${HEAD_BYTES_MAX} bytes`);
    if (!START.subarray(0, this.#bytes.length).equals(this.#bytes.subarray(0, START.length)))
      throw new Error(`expected an HTTP/1.1 answer, found ${JSON.stringify(this.#bytes.toString('latin1', 0, 80))}`);
    return end === -1 ? undefined : end;
  }
}

type Read = readonly [body: Buffer, rest: Buffer];

/** Returns the body and the bytes after it, or undefined if it is incomplete. */
function bodyIn(bytes: Buffer, framing: Head['framing'], isEnd: boolean): Read | undefined {
  if (framing === 'chunked') return dechunked(bytes);
  if (bytes.length < framing && !(isEnd && framing === Infinity)) return undefined;
  return [bytes.subarray(0, framing), bytes.subarray(framing)];
}

/** RFC 9112, section 7.1. */
function dechunked(bytes: Buffer): Read | undefined {
  const chunks: Buffer[] = [];
  for (let at = 0; ;) {
    const end = bytes.indexOf(LINE_END, at);
    if (end === -1) return undefined;
    const size = CHUNK_SIZE.exec(bytes.toString('latin1', at, end))?.[1];
    if (size === undefined) throw new Error('a malformed chunk size');
    const from = end + LINE_END.length;
    const to = from + Number.parseInt(size, 16);
    if (to === from) {
      const trailersEnd = bytes.indexOf(HEAD_END, end);
      if (trailersEnd === -1) return undefined;
      return [Buffer.concat(chunks), bytes.subarray(trailersEnd + HEAD_END.length)];
    }
    if (bytes.length < to + LINE_END.length) return undefined;
    if (!bytes.subarray(to, to + LINE_END.length).equals(LINE_END)) throw new Error('a chunk without a line end');
    chunks.push(bytes.subarray(from, to));
    at = to + LINE_END.length;
  }
}

/** Returns `undefined` for an interim answer. */
function headOf(text: string): Head | undefined {
  const lines = text.split('\r\n');
  const [, minor, code] = STATUS_LINE.exec(lines[0] ?? '') ?? [];
  const status = Number(code);
  if (code === undefined || status === 101)
    throw new Error(`expected an answer, found ${JSON.stringify(lines[0]?.slice(0, 80))}`);
  if (status < 200) return undefined;
  const fields = new Map<string, string>();
  for (const line of lines.slice(1)) {
    const [, name, value = ''] = FIELD.exec(line) ?? [];
    if (name === undefined) throw new Error(`status ${status} with a malformed header field`);
    const before = fields.get(name.toLowerCase());
    fields.set(name.toLowerCase(), before === undefined ? value : `${before}, ${value}`);
  }
  if (fields.has('content-encoding')) throw new Error(`status ${status} with a Content-Encoding`);
  const framing = status === 204 || status === 304 ? 0 : framingOf(status, minor, fields);
  const connection = `,${fields.get('connection') ?? ''},`;
  const stays = minor === '1' ? !/,[ \t]*close[ \t]*,/i.test(connection) : /,[ \t]*keep-alive[ \t]*,/i.test(connection);
  return { status, fields, framing, isLast: !stays || framing === Infinity };
}

/** RFC 9112, section 6.3. */
function framingOf(status: number, minor: string | undefined, fields: ReadonlyMap<string, string>): Head['framing'] {
  const [length, coding] = [fields.get('content-length'), fields.get('transfer-encoding')];
  if (coding !== undefined) {
    if (minor === '1' && length === undefined && /^chunked$/i.test(coding)) return 'chunked';
    throw new Error(`status ${status} with Transfer-Encoding ${coding}, expected only chunked, without Content-Length`);
  }
  if (length === undefined) return Infinity;
  if (!/^\d{1,15}$/.test(length)) throw new Error(`status ${status} with a malformed Content-Length`);
  return Number(length);
}
