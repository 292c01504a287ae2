// How much may be in flight: events and body bytes that were admitted and not answered yet.
//
// It is the bound on memory and on waiting: what is over is refused at once, with a body that says to retry.
export class Admission {
  readonly #eventsMax: number;
  readonly #bytesMax: number;
  #events = 0;
  #bytes = 0;

  constructor(eventsMax: number, bytesMax: number) {
    this.#eventsMax = eventsMax;
    this.#bytesMax = bytesMax;
  }

  get events(): number {
    return this.#events;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Admits one event of so many bytes, or not. A lone event is admitted whatever its size. */
  admit(bytes: number): boolean {
    if (this.#events >= this.#eventsMax) return false;
    if (this.#bytes + bytes > this.#bytesMax && this.#events > 0) return false;
    this.#events += 1;
    this.#bytes += bytes;
    return true;
  }

  /** Admits more bytes of an event that was admitted, or not (it is to be released then). */
  grow(bytes: number): boolean {
    if (this.#bytes + bytes > this.#bytesMax && this.#events > 1) return false;
    this.#bytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#events -= 1;
    this.#bytes -= bytes;
  }
}
