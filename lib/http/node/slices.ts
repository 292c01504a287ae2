// How many bytes node:http is given at a time.

/** Where a head may begin: it holds few requests. */
export const HEAD_SLICE_BYTES = 256;
/** Inside a body whose end is not known or near. */
const BODY_END_SLICE_BYTES = 1_024;
const BODY_SLICE_BYTES = 65_536;

// Fact: a body in chunks of one byte takes node:http 2 us for each, and one read of a socket brings 11,000 of them; 60
// such bodies kept others waiting for 14 seconds. Choice: what is behind the first bytes of a body without an announced
// length waits in line. Effect: 0.2 seconds (test/end-to-end/short-pieces.long.ts).
/** How much of such a body is given before its side queues, and then in each of its turns. */
const CHUNKED_FIRST_BYTES = 2_048;
const CHUNKED_TURN_BYTES = 16_384;

/** Of a body, one after the other: no more than is left of it, where that is known. */
export class BodySlices {
  #fedBytes = 0;
  #turnEndBytes = 0;

  /** As much has been given as a body without an announced length may get before it is its side's turn again. */
  get hadTurn(): boolean {
    return this.#fedBytes >= this.#turnEndBytes;
  }

  /** The head of another request has been given; the piece that ended it may hold the beginning of the body. */
  begin(): void {
    this.#fedBytes = 0;
    this.#turnEndBytes = CHUNKED_FIRST_BYTES;
  }

  takeTurn(): void {
    this.#turnEndBytes = this.#fedBytes + CHUNKED_TURN_BYTES;
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
