// Reads the members of a report that the specification does not define. Other tools may write anything under these
// names, so a member with an unexpected form is ignored.
import { isObject } from './strict-json.ts';
import { lineAnchor } from './fingerprint.ts';
import type { Finding, ReportHeader } from './report-schema.ts';

export type Linter = { readonly name: string; readonly version: string; readonly informationUri?: string };

const BLANK_LINE = lineAnchor('');

type WithTool = Pick<ReportHeader, 'tool'>;

export function lintersOf({ tool }: WithTool): Linter[] {
  const { linter, linters } = tool as { linter?: unknown; linters?: unknown };
  const all: unknown[] = linter === undefined && Array.isArray(linters) ? linters : [linter];
  return all.flatMap((one) => {
    const { name, version, informationUri } = isObject(one) ? one : {};
    if (typeof name !== 'string' || typeof version !== 'string') return [];
    return typeof informationUri === 'string' ? { name, version, informationUri } : { name, version };
  });
}

export function ruleTextsOf({ tool }: WithTool): Record<string, string> {
  const { rules } = tool as { rules?: unknown };
  const isText = (entry: [string, unknown]): entry is [string, string] =>
    typeof entry[1] === 'string' && entry[1] !== '';
  return Object.fromEntries(Object.entries(isObject(rules) ? rules : {}).filter(isText));
}

/** Returns a count that extends the summary or the counts of a baseline. */
export function countIn(owner: object | undefined, name: 'suppressed' | 'notVerifiable'): number {
  const value = (owner as Record<string, unknown> | undefined)?.[name];
  return typeof value === 'number' ? value : 0;
}

/** Returns the position after the last character, counted from 1. */
export function endOf({ location }: Finding) {
  const { endLine, endColumn } = location as { endLine?: unknown; endColumn?: unknown };
  const { line, column } = location;
  if (line === undefined || column === undefined || !isOrdinal(endLine) || !isOrdinal(endColumn)) return undefined;
  return endLine > line || (endLine === line && endColumn >= column) ? { endLine, endColumn } : undefined;
}

export function flaggedTextOf(finding: Finding): string | undefined {
  const { flaggedText } = finding as { flaggedText?: unknown };
  return typeof flaggedText === 'string' && flaggedText !== '' ? flaggedText : undefined;
}

export function anchorIn(finding: Finding) {
  const { anchor: whole } = finding as { anchor?: unknown };
  if (typeof whole !== 'string' || !/^[0-9a-f]{16}$/u.test(whole)) return undefined;
  return { whole, line: whole.slice(0, 8), flagged: whole.slice(8) };
}

/** False if the line of source text is blank or unknown. */
export const hasLineText = (finding: Finding) => (anchorIn(finding)?.line ?? BLANK_LINE) !== BLANK_LINE;

export const isOrdinal = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) > 0;
