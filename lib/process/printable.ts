// Escapes control characters in text from untrusted sources, so that a terminal shows them instead of interpreting
// them. The escapes are valid in JSON strings, so escaped JSON has the same value.

/** Control characters (C0, DEL, C1), line separators, and marks that are invisible or change the direction of text. */
// eslint-disable-next-line no-control-regex -- the expression must match them
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/g;

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

export const printable = (text: string): string => text.replaceAll(CONTROL, escaped);

/** Escapes control characters except line feeds and tabs. */
export const printableLines = (text: string): string =>
  text.replaceAll(CONTROL, (character) => (character === '\n' || character === '\t' ? character : escaped(character)));
