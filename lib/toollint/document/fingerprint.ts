// The fingerprint toolLint/v1: what makes a finding the same finding after the file around it has changed.
//
//   content = JSON of ["toolLint/v1", scope, ruleId, discriminator, line text, flagged text]
//   place   = JSON of ["toolLint/v1", scope, path]
//   fingerprint = the first 32 hex digits of SHA-256(content), then the first 32 of SHA-256(place)
//
// discriminator: the engine's own message id where it has one; otherwise the message with runs of blanks as one space,
// runs of digits as '#' and the absolute root taken out. line text and flagged text: blanks likewise; '' where the
// source is not at hand. In a line of more than 1,024 UTF-16 units only a window around the column counts, because
// hashing a 5 MB line for each of 10,000 findings would take minutes.
//
// Not in it: line, column, severity, tool version, root, separator. Two byte-identical lines have one fingerprint;
// `occurrence` numbers them. The constant never changes: another recipe gets another name.
import { hash } from 'node:crypto';
import { FINGERPRINT_VERSION } from './report-format.ts';
import type { Finding } from './report-schema.ts';

const LONG_LINE_UNITS = 1024;
const WINDOW_UNITS = 128;

/** What identifies a finding, apart from its place. */
interface FingerprintContent {
  readonly scope: Finding['location']['scope'];
  readonly ruleId: string;
  /** `discriminatorOf` gives it. */
  readonly discriminator: string;
  /** Source line and flagged part, already normalized; '' where there is none. */
  readonly lineText: string;
  readonly flaggedText: string;
}

/** The half that names the finding's content: 32 lower-case hex digits. */
export function contentHalf({ scope, ruleId, discriminator, lineText, flaggedText }: FingerprintContent): string {
  return digest([FINGERPRINT_VERSION, scope, ruleId, discriminator, lineText, flaggedText]);
}

/**
 * The half that names the place, 32 lower-case hex digits; the same for all findings of one file. `path` is relative to
 * the root, with '/' between segments and in NFC; '' for project scope.
 */
export function placeHalf(scope: Finding['location']['scope'], path: string): string {
  return digest([FINGERPRINT_VERSION, scope, path]);
}

function digest(parts: readonly string[]): string {
  return hash('sha256', JSON.stringify(parts), 'hex').slice(0, 32);
}

/** The stable text of a message that names no folder of the machine: see the header. */
export function discriminatorOf(messageId: string | undefined, message: string): string {
  return messageId || maskedText(message);
}

/** Blanks collapsed, digits as '#'. */
const maskedText = (text: string) => collapseBlanks(text).replace(/[0-9]+/gu, '#');

/** Runs of blanks become one space; none at the ends. */
function collapseBlanks(text: string): string {
  return text.replace(/\s+/gu, ' ').trim();
}

/** Lines of a source text, split where ECMAScript ends a line. A byte order mark belongs to no line. */
export function sourceLines(text: string): string[] {
  return (text.startsWith('\ufeff') ? text.slice(1) : text).split(/\r\n|[\n\r\u2028\u2029]/u);
}

/** A finding's position in its source; members that the engine did not give are absent. */
export interface FlaggedRange {
  readonly line?: number | undefined;
  readonly column?: number | undefined;
  readonly endLine?: number | undefined;
  readonly endColumn?: number | undefined;
}

/** Line text and flagged text for a fingerprint; both '' where the line does not exist. */
export function flaggedTexts(lines: readonly string[], range: FlaggedRange): { lineText: string; flaggedText: string } {
  const raw = range.line === undefined ? undefined : lines[range.line - 1];
  if (raw === undefined) return { lineText: '', flaggedText: '' };
  const column = range.column === undefined ? undefined : range.column - 1;
  const endsHere = range.endLine === range.line && range.endColumn !== undefined;
  const flagged = column === undefined ? '' : raw.slice(column, endsHere ? range.endColumn - 1 : undefined);
  if (raw.length <= LONG_LINE_UNITS) {
    return { lineText: collapseBlanks(raw), flaggedText: collapseBlanks(flagged) };
  }
  const centre = column ?? 0;
  return {
    lineText: collapseBlanks(raw.slice(Math.max(0, centre - WINDOW_UNITS), centre + WINDOW_UNITS)),
    flaggedText: collapseBlanks(flagged.slice(0, WINDOW_UNITS)),
  };
}

const FLAGGED_UNITS_MAX = 4096;

/**
 * Recognizes a finding after its line was changed: 8 hex digits of the hash of its line, to find the old line in a diff,
 * and 8 of the hash of the flagged text. undefined if the line does not exist.
 */
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

/** The first part of an anchor. */
export function lineAnchor(raw: string): string {
  return shortDigest(collapseBlanks(raw.replace(/^\ufeff/u, '').slice(0, LONG_LINE_UNITS)));
}

const shortDigest = (text: string) => hash('sha256', text, 'hex').slice(0, 8);
