// How many columns of a terminal a text takes, and texts cut to so many. Controls are taken out before (plain-text.ts).
import stringWidth from 'string-width';

/** Columns that a text takes on a terminal. */
export function textWidth(text: string): number {
  return stringWidth(text);
}

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** Cuts a text to so many columns of a terminal, between graphemes, with '…' for what is gone. */
export function fitted(text: string, columnsMax: number): string {
  // Messages may have megabytes: what lies behind so many units cannot be on the line.
  const start = text.slice(0, columnsMax * 16);
  if (start.length === text.length && stringWidth(text) <= columnsMax) return text;
  let kept = '';
  let width = 0;
  for (const { segment } of graphemes.segment(start)) {
    width += stringWidth(segment);
    if (width > columnsMax - 1) break;
    kept += segment;
  }
  return `${kept}…`;
}
