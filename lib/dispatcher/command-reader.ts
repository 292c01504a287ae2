// Reads the commands of one connection (RESP2, redis.io/docs/reference/protocol-spec): arrays of strings, in pieces of
// any size.
//
// Invariant: the cost of a byte does not depend on how the bytes are cut into pieces, nor on what precedes it.
//
// Limits: COMMAND_BYTES_MAX and PARTS_MAX for a command, and eight digits for a length. Anything beyond is refused as
// soon as it is announced.

/** The longest body that a gateway can be set to take (64 MiB), and what surrounds it. */
const COMMAND_BYTES_MAX = 65 << 20;
/** A gateway sends at most 256 events in a call, of four parts each. */
const PARTS_MAX = 16_384;
const DIGITS_MAX = 8;
const CRLF_BYTES = 2;

const ARRAY = 0x2a; // *
const STRING = 0x24; // $
const ZERO = 0x30;
const RETURN = 0x0d;
const FEED = 0x0a;

const NOTHING = Buffer.alloc(0);

/** One whole command. Its parts are views of the bytes that came. */
export class Command {
  readonly #bytes: Buffer;
  /** Where each part begins and ends, by turns. */
  readonly #bounds: readonly number[];

  constructor(bytes: Buffer, bounds: readonly number[]) {
    this.#bytes = bytes;
    this.#bounds = bounds;
  }

  /** How many parts it has, without its name. */
  get parts(): number {
    return this.#bounds.length / 2 - 1;
  }

  /** In capital letters. */
  get name(): string {
    return this.utf8(0).toUpperCase();
  }

  /** Part `at`; the name is part 0. Throws where it has no such part. */
  utf8(at: number): string {
    const from = this.#bounds[2 * at];
    if (from === undefined) throw new ProtocolFault('a command has a part too few');
    return this.#bytes.toString('utf8', from, this.#bounds[2 * at + 1]);
  }
}

/** What a peer sent is no command; nothing behind it can be read. */
export class ProtocolFault extends Error {
  override readonly name = 'ProtocolFault';
}

export class CommandReader {
  #bytes: Buffer = NOTHING;
  /** Of `#bytes`, what came and was not given yet. */
  #from = 0;
  #end = 0;
  /** Whether `#bytes` is a block of our own, which may be written to; otherwise it is the last piece. */
  #owned = false;
  /** Of the command at `#from`: how many of its bytes were looked through, and what was found. */
  #seen = 0;
  #missing: number | undefined;
  #size: number | undefined;
  #bounds: number[] = [];
  #work = 0;

  /** The memory that waits for the rest of a command, in bytes. */
  get bytesHeld(): number {
    return this.#from === this.#end ? 0 : this.#bytes.length + 8 * this.#bounds.length;
  }

  /** Bytes that were looked at or copied so far: what reading has cost. */
  get work(): number {
    return this.#work;
  }

  /** Takes a piece, whose memory is this reader's from now on. */
  push(piece: Buffer): void {
    const held = this.#end - this.#from;
    if (held === 0) {
      this.#bytes = piece;
      this.#owned = false;
      this.#from = 0;
      this.#end = piece.length;
      return;
    }
    if (!this.#owned || this.#bytes.length - this.#end < piece.length) {
      // Twice as much each time, so that a byte is copied twice on average, however many pieces follow.
      const block = Buffer.allocUnsafeSlow(Math.max(2 * held, held + piece.length));
      this.#work += this.#bytes.copy(block, 0, this.#from, this.#end);
      this.#bytes = block;
      this.#owned = true;
      this.#from = 0;
      this.#end = held;
    }
    this.#work += piece.copy(this.#bytes, this.#end);
    this.#end += piece.length;
  }

  /** The next command that is whole. Throws a ProtocolFault at the first byte that can be no command's. */
  next(): Command | undefined {
    this.#missing ??= this.#number(ARRAY, PARTS_MAX);
    if (this.#missing === undefined) return undefined;
    if (this.#missing === 0) throw new ProtocolFault('a command without a name');
    while (this.#missing > 0) {
      this.#size ??= this.#number(STRING, COMMAND_BYTES_MAX);
      if (this.#size === undefined) return undefined;
      const [from, to] = [this.#seen, this.#seen + this.#size];
      if (to > COMMAND_BYTES_MAX) throw new ProtocolFault(`a command of more than ${COMMAND_BYTES_MAX} bytes`);
      if (this.#from + to + CRLF_BYTES > this.#end) return undefined;
      this.#assertLineEnd(this.#from + to);
      this.#bounds.push(from, to);
      this.#seen = to + CRLF_BYTES;
      this.#size = undefined;
      this.#missing -= 1;
    }
    const command = new Command(this.#bytes.subarray(this.#from, this.#from + this.#seen), this.#bounds);
    this.#from += this.#seen;
    this.#seen = 0;
    this.#missing = undefined;
    this.#bounds = [];
    if (this.#from === this.#end) this.#bytes = NOTHING;
    return command;
  }

  /** The number in the line that comes next; undefined while the line is not whole. */
  #number(kind: number, max: number): number | undefined {
    const start = this.#from + this.#seen;
    if (start >= this.#end) return undefined;
    if (this.#bytes[start] !== kind) throw new ProtocolFault('what came is no array of strings');
    let value = 0;
    for (let at = start + 1; at < this.#end; at += 1) {
      const byte = this.#bytes[at] ?? 0;
      this.#work += 1;
      if (byte === RETURN && at > start + 1) {
        if (at + 1 === this.#end) return undefined;
        this.#assertLineEnd(at);
        if (value > max) throw new ProtocolFault(`a length of more than ${max}`);
        this.#seen = at + CRLF_BYTES - this.#from;
        return value;
      }
      const digit = byte - ZERO;
      if (digit < 0 || digit > 9 || at - start > DIGITS_MAX) throw new ProtocolFault('a length is no number');
      value = 10 * value + digit;
    }
    return undefined;
  }

  #assertLineEnd(at: number): void {
    if (this.#bytes[at] !== RETURN || this.#bytes[at + 1] !== FEED)
      throw new ProtocolFault('a part does not end where its length says');
  }
}
