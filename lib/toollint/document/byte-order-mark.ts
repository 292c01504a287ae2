// The byte order mark at the beginning of a stream: readers accept it, writers never write it. The first bytes are held
// back until it is known whether they are one.

const MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** Takes the mark off a stream of chunks. */
export class ByteOrderMark {
  #seen = false;
  #head: Buffer | undefined = Buffer.alloc(0);

  /** Whether the text began with the mark. */
  get seen(): boolean {
    return this.#seen;
  }

  /** The chunk without the mark, and with what was held back; undefined: it is too early to tell. */
  after(chunk: Uint8Array): Uint8Array | undefined {
    if (this.#head === undefined) return chunk;
    const head = Buffer.concat([this.#head, chunk]);
    if (head.length < MARK.length) {
      this.#head = head;
      return undefined;
    }
    this.#head = undefined;
    this.#seen = head.subarray(0, MARK.length).equals(MARK);
    return this.#seen ? head.subarray(MARK.length) : head;
  }

  /** The stream has ended: what is still held back, once. */
  held(): Uint8Array | undefined {
    const head = this.#head;
    this.#head = undefined;
    return head;
  }
}
