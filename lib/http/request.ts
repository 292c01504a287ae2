// A request as its handler sees it, and the way to answer it, whichever reader took it off the wire.
import type { Answer } from './respond.ts';

/** Why the rest of a request cannot be read, or why a head could not. */
export type ProtocolFault = 'malformed' | 'headersTooLarge' | 'timeout' | 'connect';

/**
 * Who handles a request, as its reader sees it. Of `bodyRead`, `bodyTooLarge` and `bodyAborted` exactly one comes,
 * once, for a body that was asked for, not given by `readBody` itself, and not abandoned.
 */
export interface RequestListener {
  /** `bytes` more of a body that announced no length have arrived. Call `abandonBody` here to refuse the rest. */
  bodyGrows(bytes: number): void;
  /** All of it. */
  bodyRead(body: Buffer): void;
  /** The first byte over the limit has come; the rest is left unread. */
  bodyTooLarge(): void;
  /** The client went away. */
  bodyAborted(): void;
  /**
   * The rest of the request cannot be read, or did not come in time: answer and close. False when it was answered
   * before.
   */
  fault(fault: ProtocolFault): boolean;
}

/** Why a request that could be read must not be handled: it could mean another thing to another reader. */
export type RequestDefect = 'host' | 'transferCoding' | 'repeatedField' | 'version';

/** A header field: its name in lower case, its value as it came, one character for each byte. */
export type HeaderField = readonly [name: string, value: string];

export interface HttpRequest {
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
  /** Undefined for a POST, which has one form of answers; several fields are joined by commas. */
  readonly accept: string | undefined;
  /**
   * The fields whose name begins with `ce-` (CloudEvents HTTP binding, section 3.1.3), in their order; undefined where
   * there are none.
   */
  readonly cloudEventFields: readonly HeaderField[] | undefined;
  /** As it came, not judged (W3C Trace Context); several fields are joined by commas. */
  readonly traceparent: string | undefined;
  readonly tracestate: string | undefined;
  /** The caller's X-Request-Id, not judged. */
  readonly givenRequestId: string | undefined;
  /** Its body, if it has one, comes only after `continue`. */
  readonly expectsContinue: boolean;

  /** Its last byte has arrived. */
  readonly complete: boolean;
  /** It is the last one that has come by its connection, so nothing is lost behind an answer that closes. */
  readonly latest: boolean;
  /** The client is gone. */
  readonly gone: boolean;

  /** Sets the listener; once, before anything else is called. */
  listen(listener: RequestListener): void;
  /** A body without an announced length, or one longer than `bytes`, may be under way. */
  bodyMayExceed(bytes: number): boolean;
  continue(): void;
  /** Gives the whole body where it has arrived; else the listener is called. */
  readBody(bytesMax: number): Buffer | undefined;
  /** The listener hears no more of the body; what still arrives is thrown away. */
  abandonBody(): void;
  /**
   * The one answer. With `close` the connection ends after it. False when the client is gone, or was answered before.
   */
  respond(requestId: string, answer: Answer, close: boolean): boolean;
}
