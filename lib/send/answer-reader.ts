// Reads the answers on one connection, in order.
//
// Only answers in the form that a gateway sends are accepted: HTTP/1.1, a final status, Content-Length, no coding. If
// several requests share a connection, any other form could make one answer look like two, or two like one.
//
// Limits: 16 KiB of header fields and 64 KiB of body. Gateways send less.

export interface GatewayAnswer {
  readonly status: number;
  readonly body: string;
  readonly contentType: string | undefined;
  readonly requestId: string | undefined;
  readonly retryAfter: string | undefined;
  /** True if the server closes the connection after this answer. */
  readonly isLast: boolean;
}

type Head = Omit<GatewayAnswer, 'body'> & { readonly bodyBytes: number };

const HEAD_BYTES_MAX = 16_384;
const BODY_BYTES_MAX = 65_536;

const START = Buffer.from('HTTP/1.1 ');
const HEAD_END = Buffer.from('\r\n\r\n');
const NOTHING = Buffer.alloc(0);
// eslint-disable-next-line no-control-regex -- the expression excludes them
const STATUS_LINE = /^HTTP\/1\.1 ([2-5]\d\d)(?: [^\0-\x08\x0a-\x1f\x7f]*)?$/;
// eslint-disable-next-line no-control-regex -- the expression excludes them
const FIELD = /^([!#$%&'*+.^_`|~\w-]+):[ \t]*((?:[^\0-\x20\x7f](?:[^\0-\x08\x0a-\x1f\x7f]*[^\0-\x20\x7f])?)?)[ \t]*$/;

export class AnswerReader {
  #bytes: Buffer = NOTHING;
  #head: Head | undefined;

  add(chunk: Buffer): void {
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
  }

  /** False if the reader has received part of an answer. */
  get isEmpty(): boolean {
    return this.#bytes.length === 0 && this.#head === undefined;
  }

  /**
   * Returns the next complete answer, or undefined if there is none yet. Throws if the bytes are not an answer of a
   * gateway, in which case the caller must close the connection.
   */
  next(): GatewayAnswer | undefined {
    this.#head ??= this.#readHead();
    if (this.#head === undefined || this.#bytes.length < this.#head.bodyBytes) return undefined;
    const { bodyBytes, ...head } = this.#head;
    const body = this.#bytes.toString('utf8', 0, bodyBytes);
    this.#bytes = this.#bytes.subarray(bodyBytes);
    this.#head = undefined;
    return { ...head, body };
  }

  #readHead(): Head | undefined {
    const end = this.#bytes.indexOf(HEAD_END);
    if (Math.max(end, this.#bytes.length * Number(end === -1)) > HEAD_BYTES_MAX)
      throw new Error(`the header of the answer is longer than ${HEAD_BYTES_MAX} bytes`);
    if (!START.subarray(0, this.#bytes.length).equals(this.#bytes.subarray(0, START.length)))
      throw new Error(`expected an HTTP/1.1 answer, found ${JSON.stringify(this.#bytes.toString('latin1', 0, 80))}`);
    if (end === -1) return undefined;
    const head = headOf(this.#bytes.toString('latin1', 0, end));
    this.#bytes = this.#bytes.subarray(end + HEAD_END.length);
    return head;
  }
}

function headOf(text: string): Head {
  const lines = text.split('\r\n');
  const status = Number(STATUS_LINE.exec(lines[0] ?? '')?.[1]);
  if (!(status >= 200) || status === 204 || status === 304)
    throw new Error(`expected a final status and a body, found ${JSON.stringify(lines[0]?.slice(0, 80))}`);
  let bodyBytes: number | undefined;
  let [contentType, requestId, retryAfter]: (string | undefined)[] = [];
  let isLast = false;
  for (let at = 1; at < lines.length; at += 1) {
    const [, name = '', value = ''] = FIELD.exec(lines[at] ?? '') ?? [];
    switch (name.toLowerCase()) {
      case '':
        throw new Error(`status ${status} with a malformed header field`);
      case 'content-length':
        if (bodyBytes !== undefined || !/^\d{1,15}$/.test(value))
          throw new Error(`status ${status} with a malformed Content-Length`);
        bodyBytes = Number(value);
        break;
      case 'transfer-encoding':
      case 'content-encoding':
        throw new Error(`status ${status} with ${name}, expected a body without a coding`);
      case 'connection':
        isLast ||= /(^|,)[ \t]*close[ \t]*(,|$)/i.test(value);
        break;
      case 'content-type':
        contentType = value;
        break;
      case 'x-request-id':
        requestId = value;
        break;
      case 'retry-after':
        retryAfter = value;
    }
  }
  if (bodyBytes === undefined) throw new Error(`status ${status} without Content-Length`);
  if (bodyBytes > BODY_BYTES_MAX) throw new Error(`the answer is longer than ${BODY_BYTES_MAX} bytes`);
  return { status, contentType, requestId, retryAfter, isLast, bodyBytes };
}
