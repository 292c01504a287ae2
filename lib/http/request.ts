// A request as its handler sees it, and the way to answer it, whichever reader took it off the wire.
import type { Answer } from './respond.ts';

/** Why the rest of a request cannot be read, or why a head could not. */
export type ProtocolFault = keyof typeof FAULTS;

/** What is answered to each: the row of the error catalogue with this name, and its detail. */
export const FAULTS = {
  malformed: { refusal: 'invalidEvent', detail: 'the request is not well-formed HTTP' },
  headersTooLarge: { refusal: 'headersTooLarge', detail: 'the header section is over the limit' },
  timeout: { refusal: 'requestTimeout', detail: 'the request did not arrive in time' },
  connect: { refusal: 'routeNotFound', detail: 'CONNECT is not supported' },
} as const;
export type Refused = (typeof FAULTS)[ProtocolFault]['refusal'];

/** Who handles a request, as its reader sees it. */
export interface RequestListener {
  /** The client went away before all of a body came that was asked for. */
  aborted(): void;
  /**
   * The rest of the request cannot be read, or did not come in time: answer and close. False when it was answered
   * before.
   */
  fault(fault: ProtocolFault): boolean;
}

/** Who gets a body. It hears no more of it once the request was answered. */
export interface BodyTaker {
  /** `bytes` more of a body that announced no length have arrived. */
  bodyGrows(bytes: number): void;
  /** All of it, or that the first byte over the limit has come. Called once, unless the client goes away. */
  bodyRead(body: Buffer | 'too large'): void;
}

/** Why a request that could be read must not be handled: it could mean another thing to another reader. */
export type RequestDefect = 'host' | 'transferCoding' | 'repeatedField' | 'version';

/** A header field: its name in lower case, its value as it came, one character for each byte. */
export type HeaderField = readonly [name: string, value: string];

/** What matters of a request's head. Of fields that may be lists, several are joined by commas. */
export interface RequestHead {
  readonly method: string;
  /** The request target as it stood (RFC 9112, section 3.2). */
  readonly target: string;
  /** Undefined: it may be handled. */
  readonly defect: RequestDefect | undefined;
  readonly fieldCount: number;
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
  /** In bytes; undefined where none was announced. */
  readonly contentLength: number | undefined;
  readonly authorization: string | undefined;
  /** Undefined for a POST, which has one form of answers. */
  readonly accept: string | undefined;
  /**
   * The fields whose name begins with `ce-` (CloudEvents HTTP binding, section 3.1.3), in their order; undefined where
   * there are none.
   */
  readonly cloudEventFields: readonly HeaderField[] | undefined;
  /** As they came, not judged (W3C Trace Context). */
  readonly traceparent: string | undefined;
  readonly tracestate: string | undefined;
  /** The caller's X-Request-Id, not judged. */
  readonly requestId: string | undefined;
}

export interface HttpRequest {
  readonly head: RequestHead;
  /** To be set once, as soon as the request is handled. */
  listener: RequestListener | undefined;
  /** It is the last one that has come by its connection, so nothing is lost behind an answer that closes. */
  readonly latest: boolean;
  /** The client is gone. */
  readonly gone: boolean;

  /** What is still to come of it has no announced length, is longer than `bytes`, or waits for 100 (Continue). */
  restMayExceed(bytes: number): boolean;
  /** Has the body read, up to `bytesMax`: `taker` gets it now where it has arrived. To be called once. */
  body(bytesMax: number, taker: BodyTaker): void;
  /**
   * The one answer; what has not been read of the body is thrown away. With `close` the connection ends after it. False
   * when the client is gone, or was answered before.
   */
  respond(requestId: string, answer: Answer, close: boolean): boolean;
}
