// Bodies that stand compressed on the queue. The entry's member `encoding` says so, and names how: `zstd`.
//
// Programs read both kinds at any time; whether a gateway compresses is its own setting. A few bytes can be a frame of
// gigabytes, so none is decompressed beyond the longest body that gateways accept.
//
// Fact: at level 1 a webhook of 9.5 kB takes 60 us to compress and 45 to decompress; higher levels save no more, and
// negative ones are no faster. Choice: level 1. Effect: 0.17 of Redis' memory at 1.4 times the CPU time from the queue
// code to the warehouse, and at less with the request's way before it (`BENCH_CASES=compression make bench`).
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';

export const ZSTD = 'zstd';
/** The member that marks such an entry, as accept.lua takes it. */
export const ENCODED_MEMBER = `encoding\n${ZSTD}\n`;

/** Shorter bodies are not worth it: without a dictionary an event of 300 bytes keeps most of them. */
const CHARACTERS_MIN = 512;
/** The longest body where no gateway has published its own limit: the default of INGEST_BODY_BYTES_MAX. */
const BODY_BYTES_MAX = 256 << 10;

const OPTIONS = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };

/** Whether `compressed` would try. */
export const isCompressible = (text: string): boolean => text.length >= CHARACTERS_MIN;

/** The text as it stands on the queue; undefined where compressing would save less than a tenth. */
export function compressed(text: string): Buffer | undefined {
  if (!isCompressible(text)) return undefined;
  const bytes = Buffer.from(text);
  const smaller = zstdCompressSync(bytes, OPTIONS);
  return smaller.length < 0.9 * bytes.length ? smaller : undefined;
}

/**
 * The body of an entry whose member `encoding` is this; as it is on the queue where it cannot be decoded, because then
 * it is no event. Undefined where it would be longer than `bytesMax`; no more than that is allocated.
 */
export function decoded(body: Buffer, encoding: string | undefined, bytesMax = BODY_BYTES_MAX): Buffer | undefined {
  if (encoding !== ZSTD) return body;
  try {
    return zstdDecompressSync(body, { maxOutputLength: bytesMax });
  } catch (cause) {
    return cause instanceof RangeError ? undefined : body;
  }
}
