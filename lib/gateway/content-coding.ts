// Decodes bodies that arrive with a Content-Encoding (RFC 9110, section 8.4): gzip (RFC 1952) or zstd (RFC 8878).
//
// Invariants: decoding stops at most one piece after the caller's limit. Producers take turns. A stream that is cut
// short, or followed by other bytes, is broken. A body with several codings is not supported.
import { promisify } from 'node:util';
import { constants, gunzip, zstdDecompress } from 'node:zlib';

/** The result if the option `info` is set, which node's type definitions lack. */
interface Inflated {
  readonly buffer: Buffer;
  readonly engine: { readonly bytesWritten: number };
}

export type ContentCoding = (body: Buffer, options: ReturnType<typeof limitsOf>) => Promise<unknown>;

const GZIP: ContentCoding = promisify(gunzip);
const CODINGS: ReadonlyMap<string, ContentCoding> = new Map([
  ['gzip', GZIP],
  ['x-gzip', GZIP], // RFC 9110, section 8.4.1.3
  ['zstd', promisify(zstdDecompress)],
]);

// A zstd frame determines how much memory its decoder needs. HTTP allows at most 8 MiB (RFC 9659, section 3).
const WINDOW = { [constants.ZSTD_d_windowLogMax]: 23 };
const limitsOf = (maxOutputLength: number) => ({ maxOutputLength, info: true as const, params: WINDOW });

/** Parses a Content-Encoding field. Returns `undefined` for no coding or `identity`. */
export function contentCoding(field: string): ContentCoding | 'unsupported' | undefined {
  const names = field.split(',').map((name) => name.trim().toLowerCase());
  const [name, ...more] = names.filter((one) => one !== '' && one !== 'identity');
  if (name === undefined) return undefined;
  return more.length > 0 ? 'unsupported' : (CODINGS.get(name) ?? 'unsupported');
}

/** Maximum length of `bytes` bytes once coded. Incompressible data becomes a little longer. */
export const codedBytesMax = (bytes: number): number => bytes + (bytes >> 6) + 1_024;

// Fact: gzip can expand a body 1,030 times, which limits on connections and events do not prevent. Choice: a limit on
// the ratio. JSON of repeated rows stays below 40.
const RATIO_MAX = 100;
/** Up to this decoded length, the ratio is not limited. */
const ANY_RATIO_BYTES_MAX = 65_536;

export const decodedBytesMax = (codedBytes: number, bodyBytesMax: number): number =>
  Math.min(bodyBytesMax, Math.max(ANY_RATIO_BYTES_MAX, RATIO_MAX * codedBytes));

/** Node has four threads. The others stay free for files and host names. */
export const DECODING_TURNS = { atATime: 2, waitingMax: 256 } as const;

/** Decodes a body. Node ignores bytes after a zstd frame, and zeros after a gzip stream. Here they make it broken. */
export async function decoded(
  coding: ContentCoding,
  body: Buffer,
  bytesMax: number,
): Promise<Buffer | 'too large' | 'broken'> {
  try {
    const { buffer, engine } = (await coding(body, limitsOf(bytesMax))) as Inflated;
    return engine.bytesWritten === body.length ? buffer : 'broken';
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE' ? 'too large' : 'broken';
  }
}
