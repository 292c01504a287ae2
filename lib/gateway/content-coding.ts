// Decodes bodies that arrive with Content-Encoding (RFC 9110, section 8.4): gzip (RFC 1952) or zstd (RFC 8878).
//
// Invariants: at most one piece more than the caller's limit is inflated. The event loop inflates bodies of at most
// NOW_BYTES_MAX; longer ones go to node's threads, AT_A_TIME at a time, and producers take turns. A stream that is cut,
// or followed by other bytes, is broken. Several codings of one body are not supported.
import { constants, gunzip, gunzipSync, zstdDecompress, zstdDecompressSync } from 'node:zlib';
import type { Clock } from '../process/clock.ts';
import { ProducerTurns } from './producer-turns.ts';

interface Limits {
  readonly maxOutputLength: number;
  readonly chunkSize: number;
  readonly info: true;
}

/** The result with the option `info`, which node's type definitions lack. */
interface Inflated {
  readonly buffer: Buffer;
  readonly engine: { readonly bytesWritten: number };
}

export interface ContentCoding {
  readonly now: (body: Buffer, limits: Limits) => unknown;
  readonly later: (body: Buffer, limits: Limits, done: (error: Error | null, inflated: unknown) => void) => void;
}

const GZIP: ContentCoding = { now: gunzipSync, later: gunzip };
// A zstd frame sets the memory of its decoder; for HTTP it is at most 8 MiB (RFC 9659, section 3).
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

/** Parses a Content-Encoding field. Returns `undefined` for no coding or `identity`. */
export function contentCoding(field: string): ContentCoding | 'unsupported' | undefined {
  const names = field.split(',').map((name) => name.trim().toLowerCase());
  const [name, ...more] = names.filter((one) => one !== '' && one !== 'identity');
  if (name === undefined) return undefined;
  return more.length > 0 ? 'unsupported' : (CODINGS.get(name) ?? 'unsupported');
}

/** The maximum coded length of so many bytes. Incompressible bytes become a little longer. */
export const codedBytesMax = (bytes: number): number => bytes + (bytes >> 6) + 1_024;

// Fact: gzip expands a body up to 1,030 times, which no limit of connections or events notices. Choice: a limit on the
// ratio. JSON of repeated rows stays below 40.
const RATIO_MAX = 100;
/** The ratio has no limit up to this decoded length. */
const ANY_RATIO_BYTES_MAX = 65_536;

/** The maximum decoded length of so many coded bytes. */
export const decodedBytesMax = (codedBytes: number, bodyBytesMax: number): number =>
  Math.min(bodyBytesMax, Math.max(ANY_RATIO_BYTES_MAX, RATIO_MAX * codedBytes));

// Fact: the result of a thread arrives after half a millisecond, and inflating 16 KiB takes 0.1. The length of the
// output is unknown before its end. Choice: try on the event loop first; start a longer one again on a thread.
const NOW_BYTES_MAX = 16_384;
const PIECE_BYTES = 65_536;
/** Node has four threads; the others stay free for files and host names. */
const AT_A_TIME = 2;
/** The bodies of one producer that may wait for a thread. */
const WAITING_MAX = 256;

export interface CodedBody {
  readonly coding: ContentCoding;
  readonly body: Buffer;
  /** The limit of the decoded length. */
  readonly bytesMax: number;
  readonly producer: string;
  readonly isNeeded: () => boolean;
}

/** `late`: too many bodies wait, or this one waited too long. */
export type Decoded = Buffer | 'too large' | 'broken' | 'late';

export class Decoding {
  readonly #turns: ProducerTurns;

  /** A body may wait `waitMs` for a thread. */
  constructor(waitMs: number, clock: Clock) {
    this.#turns = new ProducerTurns({ atATime: AT_A_TIME, waitMs, waitingMax: WAITING_MAX }, clock);
  }

  /** Calls `done` once, unless the client is gone; for a short body before it returns. */
  decode({ coding, body, bytesMax, producer, isNeeded }: CodedBody, done: (decoded: Decoded) => void): void {
    const nowMax = Math.min(bytesMax, NOW_BYTES_MAX);
    if (body.length <= codedBytesMax(nowMax)) {
      const decoded = decodedNow(coding, body, nowMax);
      if (decoded !== 'too large' || nowMax === bytesMax) return done(decoded);
    }
    this.#turns.take(producer, isNeeded, (granted) => {
      if (!granted) return done('late');
      const limits: Limits = { maxOutputLength: bytesMax, chunkSize: PIECE_BYTES, info: true };
      coding.later(body, limits, (error, inflated) => {
        this.#turns.giveBack();
        done(error === null ? wholeOf(inflated as Inflated, body) : faultOf(error));
      });
    });
  }
}

function decodedNow({ now }: ContentCoding, body: Buffer, bytesMax: number): Decoded {
  try {
    return wholeOf(now(body, { maxOutputLength: bytesMax, chunkSize: NOW_BYTES_MAX, info: true }) as Inflated, body);
  } catch (error) {
    return faultOf(error as Error);
  }
}

/** Node ignores bytes after a zstd frame, and zeros after a gzip stream. */
const wholeOf = ({ buffer, engine }: Inflated, body: Buffer): Decoded =>
  engine.bytesWritten === body.length ? buffer : 'broken';

const faultOf = (error: NodeJS.ErrnoException): Decoded =>
  error.code === 'ERR_BUFFER_TOO_LARGE' ? 'too large' : 'broken';
