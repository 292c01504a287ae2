// Makes text from a report safe to display. Messages quote source code, which may contain terminal sequences,
// characters that reverse the reading direction, and halves of surrogate pairs.
import type { Finding } from '../document/report-schema.ts';

// C0 without tab and line feed, DEL, C1, and Unicode's bidirectional controls.
// eslint-disable-next-line no-control-regex -- these are the characters that must not reach a terminal
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/gu;
// eslint-disable-next-line no-control-regex -- a terminal sequence begins with ESC or its one-character form
const SEQUENCES = /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[@-Z\\-_]/gu;

/** Escapes DEL, C1 and bidirectional controls as JSON does. ESC is of our own colors: formats remove other ones. */
export const withoutC1 = (text: string): string =>
  text.replaceAll(
    /[\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

// GitHub's runner obeys lines that start with '::', and '##[' anywhere. Azure's runner obeys '##vso['. The JSON and XML
// formats escape the second kind themselves, and have no line that starts with '::'.
const COMMANDS = /(?<=^\s*:)(?=:)|(?<=##)(?=\[|vso\[)/gimu;

/** Removes terminal sequences and invisible controls, and breaks up commands for CI runners. */
export const terminalLines = (text: string): string =>
  text.replace(SEQUENCES, '').replace(CONTROLS, '').replace(COMMANDS, '\u200b').toWellFormed();

export const terminalText = (text: string): string => terminalLines(text.replace(/\s+/gu, ' ')).trim();

export function shortened(text: string, unitsMax: number): string {
  if (text.length <= unitsMax) return text;
  return `${text.slice(0, Math.max(0, unitsMax - 1)).replace(/[\ud800-\udbff]$/u, '')}…`;
}

export const counted = (count: number, one: string) => `${count} ${one}${count === 1 ? '' : 's'}`;

/** Returns `undefined` unless `url` is an http or https URL. */
export function linkOf(url: string | undefined): string | undefined {
  if (url === undefined || !/^https?:\/\//iu.test(url) || !URL.canParse(url)) return undefined;
  // CI runners obey '##[' anywhere.
  return new URL(url).href.replaceAll(/(?<=##(?:vso)?)\[/giu, '%5B');
}

/** Returns the URL of the line that shows a finding; the base ends with a slash. */
export function sourceLink(base: string | undefined, { path, line }: Finding['location']): string | undefined {
  if (base === undefined || path === undefined) return undefined;
  return `${base}${pathUri(path)}${line === undefined ? '' : `#L${line}`}`;
}

export const pathUri = (path: string): string => path.toWellFormed().split('/').map(encodeURIComponent).join('/');

const ENTITIES = new Map(Object.entries({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&apos;' }));

export const markupText = (text: string): string =>
  text.replace(/[&<>"']/gu, (character) => ENTITIES.get(character) ?? character);
