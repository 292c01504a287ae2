// Turns a linter's messages about one file into findings in canonical order.
import { isOrdinal } from './extension.ts';
import { oneLine } from './failure.ts';
import { anchorOf, contentHalf, discriminatorOf, flaggedTexts, placeHalf, sourceLines } from './fingerprint.ts';
import type { FlaggedRange } from './fingerprint.ts';
import { byCodeUnits, sortedUnique, withoutAbsolutePaths, withoutRoots } from './report-path.ts';
import { ENGINE_RULE, FINGERPRINT_VERSION, PARSE_ERROR_RULE } from './report-format.ts';
import type { Finding, Severity } from './report-schema.ts';

export const UNUSED_DIRECTIVE_RULE = 'eslint/unused-disable-directive';

/** A linter's message about one file. The positions may be invalid. */
export interface LintMessage extends FlaggedRange {
  /** `null` for the linter's own messages. */
  readonly ruleId: string | null;
  readonly severity: Severity;
  readonly message: string;
  readonly messageId?: string | undefined;
  /** The first half of the fingerprint, if it is already known. */
  readonly content?: string | undefined;
  readonly fatal?: boolean;
  readonly suggestion?: string | undefined;
  readonly snippet?: string | undefined;
  readonly standardIds?: string[];
}

export interface RuleFacts {
  readonly docsUrl?: string | undefined;
  readonly description?: string | undefined;
  readonly category?: string | undefined;
}

type FactsOf = (ruleId: string) => RuleFacts;

const SNIPPET_UNITS_MAX = 200;

interface FileFindingsRequest {
  /** `undefined` for messages about the project. */
  readonly path: string | undefined;
  readonly text: string;
  readonly messages: readonly LintMessage[];
  readonly roots: readonly string[];
  readonly factsOf: FactsOf;
}

/** Removes `eslint-disable-line` comments, so that hiding a finding does not change its fingerprint. */
export const withoutDirectives = (text: string) => text.replace(/\/[/*][^\S\n]*eslint-disable-line\b.*$/gmu, '');

export function descriptions(findings: readonly Finding[], factsOf: FactsOf): Record<string, string> {
  const ids = sortedUnique(findings.map(({ ruleId }) => ruleId));
  return withoutAbsent(Object.fromEntries(ids.map((id) => [id, factsOf(id).description])));
}

export function fileFindings({ messages, path, text, roots, factsOf }: FileFindingsRequest): Finding[] {
  if (messages.length === 0) return [];
  const scope = path === undefined ? 'project' : 'file';
  const lines = sourceLines(text);
  const place = placeHalf(scope, path ?? '');
  const findingOf = (message: LintMessage): Finding => {
    const ruleId = ruleIdOf(message);
    const without = message.fatal === true ? withoutAbsolutePaths : withoutRoots;
    const shown = without(message.message, roots) || `(${ruleId} gave no message)`;
    const discriminator = discriminatorOf(message.messageId, shown);
    const isParseError = ruleId === PARSE_ERROR_RULE;
    const texts = isParseError ? { lineText: '', flaggedText: '' } : flaggedTexts(lines, message);
    const location = locationOf(path, message);
    const { docsUrl, ...facts } = factsOf(ruleId);
    const category = isParseError ? 'problem' : facts.category;
    return withoutAbsent({
      ...{ ruleId, severity: message.severity, message: shown },
      fingerprint: (message.content ?? contentHalf({ scope, ruleId, discriminator, ...texts })) + place,
      ...{ fingerprintVersion: FINGERPRINT_VERSION, occurrence: 1, location, standardIds: message.standardIds ?? [] },
      anchor: isParseError ? undefined : anchorOf(lines, message),
      suggestion: message.suggestion === undefined ? undefined : withoutRoots(oneLine(message.suggestion), roots),
      codeSnippet: (firstLine(message.snippet) ?? snippetOf(lines, location)) || undefined,
      flaggedText: flaggedPart(lines, location, message) || undefined,
      ...{ category, issueType: ISSUE_TYPES.get(category ?? ''), docsUrl },
    });
  };
  return messages.map(findingOf).sort(compareFindings);
}

type Present<T> = { [Name in keyof T]: Exclude<T[Name], undefined> };

export function withoutAbsent<T extends object>(value: T): Present<T> {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as Present<T>;
}

function ruleIdOf({ ruleId, fatal, message }: LintMessage): string {
  if (ruleId !== null && ruleId !== '') return ruleId;
  if (fatal === true) return PARSE_ERROR_RULE;
  return /^Unused eslint-(?:disable|enable)/u.test(message) ? UNUSED_DIRECTIVE_RULE : ENGINE_RULE;
}

/** Drops invalid positions (0, -1), but keeps a line beyond the end of the file. */
function locationOf(path: string | undefined, { line, column, endLine, endColumn }: LintMessage): Finding['location'] {
  if (path === undefined) return { scope: 'project' };
  if (!isOrdinal(line)) return { scope: 'file', path };
  if (!isOrdinal(column)) return { scope: 'file', path, line };
  const end = isOrdinal(endLine) && isOrdinal(endColumn) ? { endLine, endColumn } : {};
  return { scope: 'file', path, line, column, ...end };
}

const ISSUE_TYPES = new Map(Object.entries({ problem: 'bug', suggestion: 'code-smell', layout: 'style' }));

/** Returns '' if the flagged part of the first line is long or unknown. */
function flaggedPart(lines: readonly string[], { line, column }: Finding['location'], message: LintMessage): string {
  const raw = line === undefined || column === undefined ? undefined : lines[line - 1];
  const end = message.endLine === line ? message.endColumn : undefined;
  const text = raw?.slice((column ?? 1) - 1, end === undefined ? undefined : end - 1) ?? '';
  return text.length > SNIPPET_UNITS_MAX ? '' : text.toWellFormed();
}

const firstLine = (snippet?: string) => snippet?.trim().split('\n')[0]?.slice(0, SNIPPET_UNITS_MAX).toWellFormed();

/** Returns the flagged line without indentation or, for a long line, the part around the column. */
function snippetOf(lines: readonly string[], { line, column }: Finding['location']): string {
  const raw = line === undefined ? undefined : lines[line - 1];
  if (raw === undefined) return '';
  const start = raw.length <= SNIPPET_UNITS_MAX ? 0 : Math.max(0, (column ?? 1) - 1 - SNIPPET_UNITS_MAX / 4);
  const part = raw.slice(start, start + SNIPPET_UNITS_MAX);
  return part.trim().toWellFormed();
}

/** Findings about the project come first, because they have no path. */
export function compareFindings(left: Finding, right: Finding): number {
  return (
    byCodeUnits(left.location.path ?? '', right.location.path ?? '') ||
    (left.location.line ?? 0) - (right.location.line ?? 0) ||
    (left.location.column ?? 0) - (right.location.column ?? 0) ||
    byCodeUnits(left.ruleId, right.ruleId) ||
    byCodeUnits(left.fingerprint, right.fingerprint) ||
    byCodeUnits(left.message, right.message) ||
    byCodeUnits(JSON.stringify(left), JSON.stringify(right))
  );
}
