// For fast-check's strings: any character, half of them ASCII. Its own unit `binary` takes each process a second of
// processor time, for a table of all characters.
import fc from 'fast-check';

const SURROGATES = { from: 0xd800, count: 0x800 };

/** Any code point but surrogates, as a string. */
export const anyCharacter = fc
  .oneof(fc.nat(0x7f), fc.nat(0x10ffff - SURROGATES.count))
  .map((point) => String.fromCodePoint(point < SURROGATES.from ? point : point + SURROGATES.count));
