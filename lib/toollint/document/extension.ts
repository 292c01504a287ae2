// Members of a report beyond the specification, which allows more than it names: the linter that ran, what its rules
// say of themselves, where a finding ends, and how the linter would fix it. Another tool's document may have anything
// under these names, so they are read through here and are absent unless they have the right form.
import { isObject } from './strict-json.ts';
import type { Finding, ReportHeader } from './report-schema.ts';

/** `tool.linter`: what looked at the code. */
export interface Linter {
  readonly name: string;
  readonly version: string;
  /** Where it is described. */
  readonly informationUri?: string;
}

/** `fix` of a finding: a text in place of another. Offsets in UTF-16 units of the file without byte order mark. */
export interface Fix {
  readonly offset: number;
  readonly length: number;
  readonly text: string;
}

/** `location.endLine` and `location.endColumn`: behind the last character, counted from 1. */
export interface End {
  readonly endLine: number;
  readonly endColumn: number;
}

export function linterOf({ tool }: Pick<ReportHeader, 'tool'>): Linter | undefined {
  const { name, version, informationUri } = member(tool, 'linter');
  if (typeof name !== 'string' || typeof version !== 'string') return undefined;
  return typeof informationUri === 'string' ? { name, version, informationUri } : { name, version };
}

/** What each rule is about, in one sentence. */
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

export function fixOf(finding: Finding): Fix | undefined {
  const { offset, length, text } = member(finding, 'fix');
  const isRange = isOrdinal(Number(offset) + 1) && isOrdinal(Number(length) + 1);
  return isRange && typeof text === 'string' ? { offset: Number(offset), length: Number(length), text } : undefined;
}

function member(owner: object, name: string): Record<string, unknown> {
  const value = (owner as Record<string, unknown>)[name];
  return isObject(value) ? value : {};
}

/** Whether the value can be a line or a column. */
export function isOrdinal(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0;
}
