// Decodes bodies that came with Content-Encoding (RFC 9110, section 8.4): gzip (RFC 1952) or zstd (RFC 8878).
//
// Invariants: of a body no more than the caller's limit and one piece is inflated. The event loop inflates at most
// NOW_BYTES_MAX of it; longer ones are left to node's threads, AT_A_TIME bodies at a time, in the order in which they
// came. The whole input is the coded stream: one that is cut, or that other bytes follow, is broken.
//
// It does not decode several codings on top of each other.
import { constants, gunzip, gunzipSync, zstdDecompress, zstdDecompressSync } from 'node:zlib';

/** `too large`: the decoded body is over the limit. */
export type Decoded = Buffer | 'too large' | 'broken';

interface Limits {
  readonly maxOutputLength: number;
  readonly chunkSize: number;
  readonly info: true;
}

/** What the option `info` makes node give: its type definitions do not know it. */
interface Inflated {
  readonly buffer: Buffer;
  readonly engine: { readonly bytesWritten: number };
}

/** The functions of node:zlib that decode it. */
export interface ContentCoding {
  readonly now: (body: Buffer, limits: Limits) => unknown;
  readonly later: (body: Buffer, limits: Limits, done: (error: Error | null, inflated: unknown) => void) => void;
}

const GZIP: ContentCoding = { now: gunzipSync, later: gunzip };
// A zstd frame demands memory of its decoder; for HTTP that is 8 MiB at most (RFC 9659, section 3).
const WINDOW = { params: { [constants.ZSTD_d_windowLogMax]: 23 } };
const CODINGS: ReadonlyMap<string, ContentCoding> = new Map([
  ['gzip', GZIP],
  ['x-gzip', GZIP], // RFC 9110, section 8.4.1.3
  [
    'zstd',
    {
      now: (body, limits) => zstdDecompressSync(body, { ...limits, ...WINDOW }),
      later: (body, limits, done) => zstdDecompress(body, { ...limits, ...WINDOW }, done),
    },
  ],
]);

/**
 * What a Content-Encoding field lists. Undefined: nothing, for `identity` is no coding. `unsupported`: another coding,
 * or several.
 */
export function contentCoding(field: string): ContentCoding | 'unsupported' | undefined {
  const names = field.split(',').map((name) => name.trim().toLowerCase());
  const [name, ...more] = names.filter((one) => one !== '' && one !== 'identity');
  if (name === undefined) return undefined;
  return more.length > 0 ? 'unsupported' : (CODINGS.get(name) ?? 'unsupported');
}

/** How long the coded form of so many bytes may be: what cannot be compressed becomes a little longer. */
export const codedBytesMax = (bytes: number): number => bytes + (bytes >> 6) + 1_024;

// Fact: it takes half a millisecond until a thread's result is there, and 0.1 to inflate 16 KiB. How long the output is
// shows only at its end. Choice: what is longer is begun again on a thread.
const NOW_BYTES_MAX = 16_384;
const PIECE_BYTES = 65_536;
/** Of node's four threads; the others stay free for files and host names. */
const AT_A_TIME = 2;

let running = 0;
const line: (() => void)[] = [];

/** Calls `done` once: before it returns, where the decoded body is short. */
export function decodeBody(
  { now, later }: ContentCoding,
  body: Buffer,
  bytesMax: number,
  done: (decoded: Decoded) => void,
): void {
  const nowMax = Math.min(bytesMax, NOW_BYTES_MAX);
  if (body.length <= codedBytesMax(nowMax)) {
    const decoded = decodedNow(
      () => now(body, { maxOutputLength: nowMax, chunkSize: NOW_BYTES_MAX, info: true }),
      body,
    );
    if (decoded !== 'too large' || nowMax === bytesMax) return done(decoded);
  }
  const begin = (): void => {
    running += 1;
    later(body, { maxOutputLength: bytesMax, chunkSize: PIECE_BYTES, info: true }, (error, inflated) => {
      running -= 1;
      line.shift()?.();
      done(error === null ? wholeOf(inflated as Inflated, body) : faultOf(error));
    });
  };
  if (running < AT_A_TIME) begin();
  else line.push(begin);
}

function decodedNow(inflate: () => unknown, body: Buffer): Decoded {
  try {
    return wholeOf(inflate() as Inflated, body);
  } catch (error) {
    return faultOf(error as Error);
  }
}

/** Node ignores what follows a zstd frame, and zeros behind a gzip stream. */
const wholeOf = ({ buffer, engine }: Inflated, body: Buffer): Decoded =>
  engine.bytesWritten === body.length ? buffer : 'broken';

const faultOf = (error: NodeJS.ErrnoException): Decoded =>
  error.code === 'ERR_BUFFER_TOO_LARGE' ? 'too large' : 'broken';
