// A request as its handler sees it. The fast path and node:http produce the same interface.
import { METHODS } from 'node:http';
import type { Answer } from './respond.ts';

export type ProtocolFault = keyof typeof FAULTS;

/** A row of the error catalog and a detail for each fault. */
export const FAULTS = {
  malformed: { refusal: 'invalidEvent', detail: 'the request is not well-formed HTTP' },
  tinyChunks: { refusal: 'invalidEvent', detail: 'the body has over 1,024 chunks of less than 16 bytes on average' },
  headersTooLarge: { refusal: 'headersTooLarge', detail: 'the header section is over the limit' },
  timeout: { refusal: 'requestTimeout', detail: 'the request did not arrive in time' },
  connect: { refusal: 'routeNotFound', detail: 'CONNECT is not supported' },
} as const;
export type Refused = (typeof FAULTS)[ProtocolFault]['refusal'];

/** Why a readable request is refused: another parser could interpret it differently, or it has too many fields. */
export type RequestDefect = 'host' | 'transferCoding' | 'repeatedField' | 'version' | 'tooManyFields';

/** A header field: its name in lowercase and its value as sent, one character per byte. */
export type HeaderField = readonly [name: string, value: string];

/** The relevant parts of a request's head. The fast path reads only requests without the optional parts. */
export interface RequestHead {
  readonly method: string;
  readonly target: string;
  readonly defect?: RequestDefect | undefined;
  readonly contentType: string | undefined;
  readonly contentEncoding?: string | undefined;
  /** In bytes; `undefined` if none was announced. */
  readonly contentLength: number | undefined;
  readonly authorization: string | undefined;
  /** The fields whose names begin with `ce-` (CloudEvents HTTP binding, section 3.1.3), in order, if any. */
  readonly cloudEventFields?: readonly HeaderField[] | undefined;
  /** As sent, not validated (W3C Trace Context). */
  readonly traceparent: string | undefined;
  readonly tracestate: string | undefined;
  /** The caller's X-Request-Id, one character per byte; `undefined` if it is missing, empty or repeated. */
  readonly requestId: string | undefined;
}

export type Received = Buffer | 'too large' | ProtocolFault | undefined;

export interface HttpRequest {
  readonly head: RequestHead;
  /** Set if the rest of the body cannot be read. Then this is the answer. */
  readonly fault?: ProtocolFault | undefined;
  /** The whole body, if it arrived with the head. The handler clears it. */
  body: Buffer | undefined;
  /**
   * Reads another body, up to `bytesMax` bytes. Call this at most once. Resolves to `undefined` if the client leaves,
   * or if the request is answered before. `grows` is called as a body without an announced length arrives.
   */
  receive(bytesMax: number, grows: (bytes: number) => void): Promise<Received>;
  /** Does nothing if the request already has an answer or the client is gone. `close`: closes the connection. */
  respond(requestId: string, answer: Answer, close: boolean): void;
}

const TOKEN = /^[!#$%&'*+.^_`|~\w-]{1,32}(?= |$)/;

/** Returns a well-formed method that node:http does not know, or `''` if it may be one once it is whole. */
export function unknownMethod(head: string): string | undefined {
  const method = TOKEN.exec(head)?.[0];
  if (method === undefined || METHODS.includes(method)) return undefined;
  if (method.length < head.length) return method;
  return METHODS.some((one) => one.startsWith(method)) ? undefined : '';
}

export function requestIdIn(head: string): string | undefined {
  const end = head.indexOf('\r\n\r\n') + 2;
  const fields = head.slice(0, end < 2 ? head.length : end);
  const ids = [...fields.matchAll(/\nx-request-id:[\t ]*([^\r\n]*?)[\t ]*(?=\r?\n)/gi)];
  return ids.length === 1 ? ids[0]?.[1] : undefined;
}
