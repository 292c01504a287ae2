// The fingerprint toolLint/v1, which still identifies a finding after its file has changed. The recipe, which never
// changes, is in lib/toollint/README.md. Equal lines have the same fingerprint and are numbered by `occurrence`.
import { hash } from 'node:crypto';
import { oneLine } from './failure.ts';
import { FINGERPRINT_VERSION } from './report-format.ts';
import type { Finding } from './report-schema.ts';

const LONG_LINE_UNITS = 1024;
const WINDOW_UNITS = 128;

type Scope = Finding['location']['scope'];
type Texts = Readonly<Record<'ruleId' | 'discriminator' | 'lineText' | 'flaggedText', string>>;

/** The texts of the line and of its flagged part are normalized, and '' if unknown. */
export function contentHalf({ scope, ...texts }: Texts & { readonly scope: Scope }): string {
  const { ruleId, discriminator, lineText, flaggedText } = texts;
  return digest([FINGERPRINT_VERSION, scope, ruleId, discriminator, lineText, flaggedText]);
}

/** The path is '' for the project. */
export const placeHalf = (scope: Scope, path: string): string => digest([FINGERPRINT_VERSION, scope, path]);

/** True for a finding with our recipe, whose first half is independent of the path. */
export const isOurs = ({ fingerprint, location: { scope, path = '' } }: Finding): boolean =>
  fingerprint.length === 64 && fingerprint.endsWith(placeHalf(scope, path));

const digest = (parts: readonly string[]) => hash('sha256', JSON.stringify(parts), 'hex').slice(0, 32);

export const discriminatorOf = (messageId: string | undefined, message: string): string =>
  messageId || maskedText(message);

const maskedText = (text: string) => masked(oneLine(text));

export const masked = (text: string) => text.replace(/[0-9]+/gu, '#');

/** The line terminators of ECMAScript. */
export const LINE_END = /\r\n|[\n\r\u2028\u2029]/gu;

/** A byte order mark belongs to no line. */
export const sourceLines = (text: string): string[] => text.replace(/^\ufeff/u, '').split(LINE_END);

export type FlaggedRange = { readonly [Name in 'line' | 'column' | 'endLine' | 'endColumn']?: number | undefined };

/** Of a long line, only a window is used, because hashing 5 MB for each of 10,000 findings would take minutes. */
export function flaggedTexts(lines: readonly string[], range: FlaggedRange): { lineText: string; flaggedText: string } {
  const raw = range.line === undefined ? undefined : lines[range.line - 1];
  if (raw === undefined) return { lineText: '', flaggedText: '' };
  const column = range.column === undefined ? undefined : range.column - 1;
  const endsHere = range.endLine === range.line && range.endColumn !== undefined;
  const flagged = column === undefined ? '' : raw.slice(column, endsHere ? range.endColumn - 1 : undefined);
  if (raw.length <= LONG_LINE_UNITS) return { lineText: oneLine(raw), flaggedText: oneLine(flagged) };
  const centre = column ?? 0;
  return {
    lineText: oneLine(raw.slice(Math.max(0, centre - WINDOW_UNITS), centre + WINDOW_UNITS)),
    flaggedText: oneLine(flagged.slice(0, WINDOW_UNITS)),
  };
}

const FLAGGED_UNITS_MAX = 4096;

/** Returns 8 hex digits of the hash of the line, which find the old line in a diff, and 8 of the flagged text. */
export function anchorOf(lines: readonly string[], range: FlaggedRange): string | undefined {
  const { line, column = 1, endLine, endColumn } = range;
  const raw = line === undefined ? undefined : lines[line - 1];
  if (line === undefined || raw === undefined) return undefined;
  const isSeveral = endLine !== undefined && endColumn !== undefined && endLine > line && endLine <= lines.length;
  let text = raw.slice(column - 1, endLine === line && endColumn !== undefined ? endColumn - 1 : undefined);
  for (let at = line; isSeveral && at < endLine && text.length < FLAGGED_UNITS_MAX; at += 1)
    text += `\n${lines[at]?.slice(0, at === endLine - 1 ? endColumn - 1 : undefined) ?? ''}`;
  text = text.slice(0, FLAGGED_UNITS_MAX);
  const isOpen = !isSeveral && endColumn === undefined;
  return lineAnchor(raw) + shortDigest(maskedText(isOpen ? text.replace(/\s*(?:\/\/.*|\/\*.*\*\/\s*)$/u, '') : text));
}

export const lineAnchor = (raw: string): string =>
  shortDigest(oneLine(raw.replace(/^\ufeff/u, '').slice(0, LONG_LINE_UNITS)));

const shortDigest = (text: string) => hash('sha256', text, 'hex').slice(0, 8);
