// A request as its handler sees it, and the way to answer it, whichever reader took it off the wire.

/** Whoever waits for a body. Exactly one of `bodyRead`, `bodyTooLarge` and `bodyAborted` comes, once, unless it is abandoned. */
export interface BodySink {
  /** `bytes` more of a body that announced no length have come. Whoever wants no more abandons the body here. */
  bodyGrows(bytes: number): void;
  /** All of it. May come before `readBody` returns. */
  bodyRead(body: Buffer): void;
  /** The first byte over the limit has come; the rest is left unread. */
  bodyTooLarge(): void;
  /** The client went away. */
  bodyAborted(): void;
}

export interface HttpRequest {
  readonly method: string;
  /** The request target as it stood (RFC 9112, section 3.2). */
  readonly target: string;
  readonly fieldCount: number;
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
  /** In bytes; undefined where none was announced. */
  readonly contentLength: number | undefined;
  readonly authorization: string | undefined;
  /** The caller's X-Request-Id, not judged. */
  readonly givenRequestId: string | undefined;
  /** Its body, if it has one, comes only after `continue`. */
  readonly expectsContinue: boolean;

  /** Its last byte has arrived. */
  readonly complete: boolean;
  /** It is the last one that has come by its connection, so nothing is lost behind an answer that closes. */
  readonly latest: boolean;
  /** Nobody is there to be answered. */
  readonly gone: boolean;

  /** A body without an announced length, or one longer than `bytes`, may be under way. */
  bodyMayExceed(bytes: number): boolean;
  continue(): void;
  readBody(bytesMax: number, sink: BodySink): void;
  /** Not a word to the sink any more; what still arrives is thrown away. */
  abandonBody(): void;
  /**
   * Writes the one answer. `extra`: name, value, name, value …. With `close` the connection ends after it. False when
   * there was nobody to write to, or it was answered before.
   */
  respond(
    requestId: string,
    status: number,
    contentType: string,
    body: string,
    close: boolean,
    extra?: readonly string[],
  ): boolean;
}
