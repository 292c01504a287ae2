// Makes text of a report safe to show. Messages quote source code, so they may hold anything: terminal sequences,
// characters that reverse the reading direction, halves of surrogate pairs.

// C0 without tab and line feed, DEL, C1, and the bidirectional controls of Unicode, which can make text read otherwise.
// eslint-disable-next-line no-control-regex -- these are the characters that must not reach a terminal
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/gu;
// eslint-disable-next-line no-control-regex -- a terminal sequence begins with ESC or its one-character form
const SEQUENCES = /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[@-Z\\-_]/gu;

/**
 * DEL, C1 and bidirectional controls as JSON escapes: in JSON they mean the same. ESC stays, which only our own colors
 * have: JSON escapes it, and the other formats remove it.
 */
export const withoutC1 = (text: string): string =>
  text.replaceAll(
    /[\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

// A runner of GitHub obeys lines that begin with '::', and '##[' anywhere; one of Azure obeys '##vso['.
const COMMANDS = /(?<=^\s*:)(?=:)|(?<=##)(?=\[|vso\[)/gimu;

/** Lines without terminal sequences and invisible controls, in which no CI runner finds a command. */
export const terminalLines = (text: string): string =>
  text.replace(SEQUENCES, '').replace(CONTROLS, '').replace(COMMANDS, '\u200b').toWellFormed();

/** One line without them. */
export const terminalText = (text: string): string => terminalLines(text.replace(/\s+/gu, ' ')).trim();

/** Cuts a text to so many units, never inside a surrogate pair, with '…' for what is gone. */
export function shortened(text: string, unitsMax: number): string {
  if (text.length <= unitsMax) return text;
  return `${text.slice(0, Math.max(0, unitsMax - 1)).replace(/[\ud800-\udbff]$/u, '')}…`;
}

/** '3 errors', '1 error'. */
export function counted(count: number, one: string): string {
  return `${count} ${one}${count === 1 ? '' : 's'}`;
}

/** An http or https address, or nothing: other schemes never become links. */
export function linkOf(url: string | undefined): string | undefined {
  if (url === undefined || !/^https?:\/\//iu.test(url) || !URL.canParse(url)) return undefined;
  return new URL(url).href;
}

/** A report path as a relative URI: each segment percent-encoded. */
export function pathUri(path: string): string {
  return path
    .split('/')
    .map((segment) => encodeURIComponent(segment.toWellFormed()))
    .join('/');
}
