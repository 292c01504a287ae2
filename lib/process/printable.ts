// Text of others where people read it: control characters are escaped, so that a terminal shows them and does nothing.
//
// In JSON the escapes mean the same characters, so text and JSON are treated alike.

/** C0, DEL, C1, line separators, and marks that change the direction of text or cannot be seen. */
// eslint-disable-next-line no-control-regex -- it looks for them
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/g;

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** One line. */
export const printable = (text: string): string => text.replaceAll(CONTROL, escaped);

/** Lines: line feeds and tabs stay. */
export const printableLines = (text: string): string =>
  text.replaceAll(CONTROL, (character) => (character === '\n' || character === '\t' ? character : escaped(character)));
