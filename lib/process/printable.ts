// Escapes control characters and invisible ones in text from untrusted sources, so that a terminal shows them instead
// of interpreting them. The escapes are valid in JSON strings, so escaped JSON has the same value.

/** Control and format characters, separators except the space, halves of pairs, and other invisible characters. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/gu;
/** Most text has no other characters, and this expression is ten times as fast. */
const PLAIN = /^[\n\x20-\x7e]*$/;

const escaped = (character: string): string =>
  character.replaceAll(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);

export const printable = (text: string): string => text.replaceAll(HIDDEN, escaped);

/** Escapes control characters except line feeds and tabs. */
export const printableLines = (text: string): string =>
  PLAIN.test(text)
    ? text
    : text.replaceAll(HIDDEN, (character) =>
        character === '\n' || character === '\t' ? character : escaped(character),
      );
