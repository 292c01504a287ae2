// Reads the answers on one connection, in order (RFC 9112): final answers with a length, in chunks, or until the end of
// the connection. Interim answers (1xx) are skipped.
//
// If several requests share a connection, a framing mistake could make one answer look like two, or two like one.
// Therefore everything that RFC 9112 calls a recoverable mistake is refused, and the connection must be closed.
//
// Limits: 16 KiB of header fields, which include interim answers, chunk sizes and trailers, and 64 KiB of body.
// Gateways send less.

export interface GatewayAnswer {
  readonly status: number;
  readonly body: string;
  readonly contentType: string | undefined;
  readonly requestId: string | undefined;
  readonly retryAfter: string | undefined;
  /** True if the server closes the connection after this answer. */
  readonly isLast: boolean;
}

interface Head extends Omit<GatewayAnswer, 'body'> {
  readonly framing: number | 'chunked' | 'until the end';
}

const HEAD_BYTES_MAX = 16_384;
const BODY_BYTES_MAX = 65_536;

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
const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 304]);

export class AnswerReader {
  #bytes: Buffer = NOTHING;
  #head: Head | undefined;
  /** Bytes of the current answer that are not part of its body. */
  #headBytes = 0;
  /** Chunks of the body, and the bytes that are missing at the end of the last one, including its line end. */
  #chunks: Buffer[] = [];
  #chunkBytesLeft = 0;
  #bodyBytes = 0;

  add(chunk: Buffer): void {
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
  }

  /** False if the reader has received part of an answer. */
  get isEmpty(): boolean {
    return this.#bytes.length === 0 && this.#head === undefined && this.#headBytes === 0;
  }

  /**
   * Returns the next complete answer, or undefined if there is none yet. `isEnd` is true if the server has closed the
   * connection. Throws if the bytes are not an answer, in which case the caller must close the connection.
   */
  next(isEnd = false): GatewayAnswer | undefined {
    this.#head ??= this.#readHead();
    if (this.#head === undefined) return undefined;
    const { framing, ...head } = this.#head;
    const body = framing === 'chunked' ? this.#readChunks() : this.#readBody(framing, isEnd);
    if (body === undefined) return undefined;
    [this.#head, this.#headBytes, this.#bodyBytes, this.#chunks] = [undefined, 0, 0, []];
    return { ...head, body: body.toString('utf8') };
  }

  #readHead(): Head | undefined {
    for (;;) {
      if (!START.subarray(0, this.#bytes.length).equals(this.#bytes.subarray(0, START.length)))
        throw new Error(`expected an HTTP/1.1 answer, found ${JSON.stringify(this.#bytes.toString('latin1', 0, 80))}`);
      const text = this.#readUntil(HEAD_END);
      if (text === undefined) return undefined;
      const head = headOf(text);
      if (head !== undefined) return head;
    }
  }

  #readBody(framing: number | 'until the end', isEnd: boolean): Buffer | undefined {
    const bodyBytes = framing === 'until the end' ? this.#bytes.length : framing;
    this.#limit(bodyBytes);
    if (this.#bytes.length < bodyBytes || (framing === 'until the end' && !isEnd)) return undefined;
    return this.#read(bodyBytes);
  }

  #readChunks(): Buffer | undefined {
    for (;;) {
      if (this.#bytes.length < this.#chunkBytesLeft) return undefined;
      if (this.#chunkBytesLeft > 0) {
        const chunk = this.#read(this.#chunkBytesLeft);
        if (!chunk.subarray(-LINE_END.length).equals(LINE_END)) throw new Error('a chunk without a line end');
        this.#chunks.push(chunk.subarray(0, -LINE_END.length));
        this.#chunkBytesLeft = 0;
      }
      const isTrailer = this.#chunks.at(-1)?.length === 0;
      const line = this.#readUntil(LINE_END);
      if (line === undefined) return undefined;
      if (isTrailer) {
        if (line === '') return Buffer.concat(this.#chunks);
        if (!FIELD.test(line)) throw new Error('a malformed trailer field');
        continue;
      }
      const size = CHUNK_SIZE.exec(line)?.[1];
      if (size === undefined) throw new Error('a malformed chunk size');
      const bytes = Number.parseInt(size, 16);
      this.#limit((this.#bodyBytes += bytes));
      if (bytes === 0) this.#chunks.push(NOTHING);
      else this.#chunkBytesLeft = bytes + LINE_END.length;
    }
  }

  /** Reads text that is not part of the body, and the delimiter after it. */
  #readUntil(delimiter: Buffer): string | undefined {
    const end = this.#bytes.indexOf(delimiter);
    if (this.#headBytes + (end === -1 ? this.#bytes.length : end) > HEAD_BYTES_MAX)
      throw new Error(`the header of the answer is longer than ${HEAD_BYTES_MAX} bytes`);
    if (end === -1) return undefined;
    this.#headBytes += end + delimiter.length;
    return this.#read(end + delimiter.length).toString('latin1', 0, end);
  }

  #read(bytes: number): Buffer {
    const read = this.#bytes.subarray(0, bytes);
    this.#bytes = this.#bytes.subarray(bytes);
    return read;
  }

  #limit(bodyBytes: number): void {
    if (bodyBytes > BODY_BYTES_MAX) throw new Error(`the answer is longer than ${BODY_BYTES_MAX} bytes`);
  }
}

/** Returns `undefined` for an interim answer. */
function headOf(text: string): Head | undefined {
  const lines = text.split('\r\n');
  const [, minor, code] = STATUS_LINE.exec(lines[0] ?? '') ?? [];
  const status = Number(code);
  if (code === undefined || status === 101)
    throw new Error(`expected an answer, found ${JSON.stringify(lines[0]?.slice(0, 80))}`);
  const fields = new Map<string, string>();
  for (const line of lines.slice(1)) {
    const [, name, value = ''] = FIELD.exec(line) ?? [];
    if (name === undefined) throw new Error(`status ${status} with a malformed header field`);
    const key = name.toLowerCase();
    const before = fields.get(key);
    fields.set(key, before === undefined ? value : `${before}, ${value}`);
  }
  if (status < 200) return undefined;
  if (fields.has('content-encoding')) throw new Error(`status ${status} with a Content-Encoding`);
  const framing = WITHOUT_BODY.has(status) ? 0 : framingOf(status, minor, fields);
  const connection = `,${fields.get('connection') ?? ''},`;
  const stays = minor === '1' ? !/,[ \t]*close[ \t]*,/i.test(connection) : /,[ \t]*keep-alive[ \t]*,/i.test(connection);
  return {
    status,
    framing,
    contentType: fields.get('content-type'),
    requestId: fields.get('x-request-id'),
    retryAfter: fields.get('retry-after'),
    isLast: !stays || framing === 'until the end',
  };
}

/** RFC 9112, section 6.3. */
function framingOf(status: number, minor: string | undefined, fields: ReadonlyMap<string, string>): Head['framing'] {
  const [length, coding] = [fields.get('content-length'), fields.get('transfer-encoding')];
  if (coding !== undefined) {
    if (minor === '1' && length === undefined && /^chunked$/i.test(coding)) return 'chunked';
    throw new Error(`status ${status} with Transfer-Encoding ${coding}, expected only chunked, without Content-Length`);
  }
  if (length === undefined) return 'until the end';
  if (!/^\d{1,15}$/.test(length)) throw new Error(`status ${status} with a malformed Content-Length`);
  return Number(length);
}
