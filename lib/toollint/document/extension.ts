// Reads the members of a report that the specification does not define. Other tools may write anything under these
// names, so a member with an unexpected form is ignored.
import { isObject } from './strict-json.ts';
import type { Finding, ReportHeader } from './report-schema.ts';

export interface Linter {
  readonly name: string;
  readonly version: string;
  readonly informationUri?: string;
}

/** The members `location.endLine` and `location.endColumn`: the position after the last character, counted from 1. */
export interface End {
  readonly endLine: number;
  readonly endColumn: number;
}

export function linterOf({ tool }: Pick<ReportHeader, 'tool'>): Linter | undefined {
  const { name, version, informationUri } = member(tool, 'linter');
  if (typeof name !== 'string' || typeof version !== 'string') return undefined;
  return typeof informationUri === 'string' ? { name, version, informationUri } : { name, version };
}

/** Returns several linters if the report was merged from reports of different tools. */
export function lintersOf(report: Pick<ReportHeader, 'tool'>): Linter[] {
  const { linters } = report.tool as { linters?: unknown };
  const [one, several] = [linterOf(report), Array.isArray(linters) ? (linters as unknown[]) : []];
  return one === undefined
    ? several.flatMap((linter) => linterOf({ tool: { ...report.tool, linter } as never }) ?? [])
    : [one];
}

export function ruleTextsOf({ tool }: Pick<ReportHeader, 'tool'>): Record<string, string> {
  const texts = Object.entries(member(tool, 'rules')).filter(([, text]) => typeof text === 'string' && text !== '');
  return Object.fromEntries(texts) as Record<string, string>;
}

export function endOf({ location }: Finding): End | undefined {
  const { endLine, endColumn } = location as Partial<Record<keyof End, unknown>>;
  const { line, column } = location;
  if (line === undefined || column === undefined || !isOrdinal(endLine) || !isOrdinal(endColumn)) return undefined;
  return endLine > line || (endLine === line && endColumn >= column) ? { endLine, endColumn } : undefined;
}

export function flaggedTextOf(finding: Finding): string | undefined {
  const { flaggedText } = finding as { flaggedText?: unknown };
  return typeof flaggedText === 'string' && flaggedText !== '' ? flaggedText : undefined;
}

/** Reads the member `anchor` of a finding (see `anchorOf`). */
export function anchorIn(finding: Finding) {
  const { anchor: whole } = finding as { anchor?: unknown };
  if (typeof whole !== 'string' || !/^[0-9a-f]{16}$/u.test(whole)) return undefined;
  return { whole, line: whole.slice(0, 8), flagged: whole.slice(8) };
}

function member(owner: object, name: string): Record<string, unknown> {
  const value = (owner as Record<string, unknown>)[name];
  return isObject(value) ? value : {};
}

export function isOrdinal(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0;
}
