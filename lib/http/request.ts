// A request as its handler sees it, from either reader. `Connection.respond` answers it.

/** The reason why a request cannot be read. */
export type ProtocolFault = keyof typeof FAULTS;

/** The answer to each fault: a row of the error catalog, and its detail. */
export const FAULTS = {
  malformed: { refusal: 'invalidEvent', detail: 'the request is not well-formed HTTP' },
  headersTooLarge: { refusal: 'headersTooLarge', detail: 'the header section is over the limit' },
  timeout: { refusal: 'requestTimeout', detail: 'the request did not arrive in time' },
  connect: { refusal: 'routeNotFound', detail: 'CONNECT is not supported' },
} as const;
export type Refused = (typeof FAULTS)[ProtocolFault]['refusal'];

export interface RequestListener {
  /** The client closed the connection before its body arrived. */
  aborted(): void;
  /** The rest of the request is unreadable or late: answer and close. Returns false if it was answered before. */
  fault(fault: ProtocolFault): boolean;
}

/** Receives a body. There are no calls after the answer. */
export interface BodyTaker {
  /** `bytes` more have arrived of a body without an announced length. */
  bodyGrows(bytes: number): void;
  /** The whole body has arrived, or is over the limit. Called at most once. */
  bodyRead(body: Buffer | 'too large'): void;
}

/** The reason not to handle a readable request: another reader could understand it differently. */
export type RequestDefect = 'host' | 'transferCoding' | 'repeatedField' | 'version';

/** A header field: its name in lower case, its value as sent, one character for each byte. */
export type HeaderField = readonly [name: string, value: string];

/** The relevant parts of a request's head. Fields of a list are joined by commas. */
export interface RequestHead {
  readonly method: string;
  readonly target: string;
  readonly defect: RequestDefect | undefined;
  readonly fieldCount: number;
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
  /** In bytes; `undefined` if none was announced. */
  readonly contentLength: number | undefined;
  readonly authorization: string | undefined;
  /** The fields whose names begin with `ce-` (CloudEvents HTTP binding, section 3.1.3), in order, if any. */
  readonly cloudEventFields: readonly HeaderField[] | undefined;
  /** As sent, not validated (W3C Trace Context). */
  readonly traceparent: string | undefined;
  readonly tracestate: string | undefined;
  /** The caller's X-Request-Id, not validated. */
  readonly requestId: string | undefined;
}

export interface HttpRequest {
  readonly head: RequestHead;
  /** The handler sets it once, immediately. */
  listener: RequestListener | undefined;
  /**
   * The whole body, if it arrived with the head, as an empty body always does; otherwise call `receive`. The handler
   * clears it after reading, so that its memory is free while the queue works.
   */
  body: Buffer | undefined;
  readonly gone: boolean;

  /** The missing part of the body may be longer than `bytes`, or the client waits for 100 (Continue). */
  restMayExceed(bytes: number): boolean;
  /** Reads a body that has not arrived, up to `bytesMax`. Call it at most once. */
  receive(bytesMax: number, taker: BodyTaker): void;
}
