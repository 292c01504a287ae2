// A request as its handler sees it, whichever reader took it off the wire. Connection.respond answers it.

/** Why the rest of a request cannot be read, or why a head could not. */
export type ProtocolFault = keyof typeof FAULTS;

/** The answer to each fault: the row of the error catalogue with this name, and its detail. */
export const FAULTS = {
  malformed: { refusal: 'invalidEvent', detail: 'the request is not well-formed HTTP' },
  headersTooLarge: { refusal: 'headersTooLarge', detail: 'the header section is over the limit' },
  timeout: { refusal: 'requestTimeout', detail: 'the request did not arrive in time' },
  connect: { refusal: 'routeNotFound', detail: 'CONNECT is not supported' },
} as const;
export type Refused = (typeof FAULTS)[ProtocolFault]['refusal'];

/** The handler of a request, as its reader sees it. */
export interface RequestListener {
  /** The client closed the connection before a body that was asked for had arrived. */
  aborted(): void;
  /**
   * The rest of the request cannot be read, or did not arrive in time: answer and close. Returns false if the request
   * was answered before.
   */
  fault(fault: ProtocolFault): boolean;
}

/** Receives a body. It is not called again once the request was answered. */
export interface BodyTaker {
  /** `bytes` more of a body that announced no length have arrived. */
  bodyGrows(bytes: number): void;
  /** The whole body, or the news that it is over the limit. Called once, unless the client closes the connection. */
  bodyRead(body: Buffer | 'too large'): void;
}

/** Why a readable request must not be handled: another reader could understand it differently. */
export type RequestDefect = 'host' | 'transferCoding' | 'repeatedField' | 'version';

/** A header field: its name in lower case, its value as sent, one character for each byte. */
export type HeaderField = readonly [name: string, value: string];

/** The parts of a request's head that matter here. Several fields of a list are joined by commas. */
export interface RequestHead {
  readonly method: string;
  /** The request target as sent (RFC 9112, section 3.2). */
  readonly target: string;
  /** `undefined` for a request that may be handled. */
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
  /** To be set once, as soon as the request is handled. */
  listener: RequestListener | undefined;
  /**
   * The whole body, if it arrived with the head (an empty body always does); otherwise call `receive`. The handler
   * clears it after reading, to free its memory while the answer is awaited.
   */
  body: Buffer | undefined;
  /** The client has closed the connection. */
  readonly gone: boolean;

  /** The missing rest has no announced length, is longer than `bytes`, or waits for 100 (Continue). */
  restMayExceed(bytes: number): boolean;
  /** Reads a body that has not arrived, up to `bytesMax`. To be called once at most. */
  receive(bytesMax: number, taker: BodyTaker): void;
}
