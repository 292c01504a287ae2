// How many bytes node:http is given at a time.

/** Where a head may begin: it holds few requests. */
export const HEAD_SLICE_BYTES = 256;
/** Inside a body whose end is not known or near. */
const BODY_END_SLICE_BYTES = 1_024;
const BODY_SLICE_BYTES = 65_536;

/** Of a body, one after the other: no more than is left of it, where that is known. */
export class BodySlices {
  #fedBytes = 0;

  /** The head of another request has been given; the piece that ended it may hold the beginning of the body. */
  begin(): void {
    this.#fedBytes = 0;
  }

  fed(bytes: number): void {
    this.#fedBytes += bytes;
  }

  /** How long the next one may be. `contentLength`: what was announced. */
  nextBytes(contentLength: number | undefined): number {
    const known = Math.min((contentLength ?? 0) - this.#fedBytes - BODY_END_SLICE_BYTES, BODY_SLICE_BYTES);
    return Math.max(known, BODY_END_SLICE_BYTES);
  }
}
