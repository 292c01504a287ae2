// A baseline: an earlier report whose findings are known and do not count as new. It is refused rather than guessed at,
// because a baseline that is wrongly empty turns every finding new, and one that is wrongly full hides them.
//
// Memory: one small entry for each of its findings. It is read, never written and never removed.
import { hash } from 'node:crypto';
import { type ByteSource } from '../document/byte-source.ts';
import { ReportFailure } from '../document/failure.ts';
import { ENGINE_RULE, PARSE_ERROR_RULE } from '../document/finding-consistency.ts';
import type { Finding, ReportHeader, Severity } from '../document/report-schema.ts';
import { openReport } from '../document/report-source.ts';

/** What matching needs of one old finding. */
export interface BaselineEntry {
  readonly fingerprint: string;
  readonly ruleId: string;
  readonly severity: Severity;
  readonly scope: Finding['location']['scope'];
  /** '' when the finding has none. */
  readonly path: string;
  /** 0 when the finding has none. */
  readonly line: number;
  readonly column: number;
  /** Same for findings with the same rule, path, line and message. */
  readonly placeKey: string;
}

/** An accepted baseline. */
export interface Baseline {
  readonly entries: BaselineEntry[];
  /** Only findings of severity error are compared. */
  readonly errorsOnly: boolean;
  /** Sentences for the person who reads standard error. */
  readonly notes: string[];
}

/** What the new report is, as far as it decides whether the baseline fits. */
export interface BaselineUser {
  readonly tool: ReportHeader['tool'];
  readonly profile: string | null;
  readonly quiet: boolean;
}

/** Reads a baseline. Throws ReportFailure when it cannot serve as one. */
export async function readBaseline(source: ByteSource, user: BaselineUser, signal?: AbortSignal): Promise<Baseline> {
  const report = await openReport(source, { signal }).catch((cause: unknown) => {
    if (cause instanceof ReportFailure) throw new ReportFailure('baseline', `the baseline cannot be used: ${cause.message}`, cause);
    throw cause;
  });
  const { header } = report;
  const fault = faultOf(header, user);
  if (fault !== undefined) throw new ReportFailure('baseline', `the baseline ${source.name} cannot be used: ${fault}`);
  const errorsOnly = header.selection.quiet;
  const entries: BaselineEntry[] = [];
  const shared = new Map<string, string>();
  for await (const batch of report.findings()) {
    for (const finding of batch) {
      if (isNeverBaselined(finding) || (errorsOnly && finding.severity !== 'error')) continue;
      entries.push(entryOf(finding, shared));
    }
  }
  return { entries, errorsOnly, notes: notesOn(header, user, source.name) };
}

/** A file that does not parse, and the engine's own messages, always count as new. */
export function isNeverBaselined({ ruleId }: Pick<Finding, 'ruleId'>): boolean {
  return ruleId === PARSE_ERROR_RULE || ruleId === ENGINE_RULE;
}

/** Digest of (rule, path, line, message), the identity of a finding whose line was edited in place. */
export function placeKeyOf({ ruleId, location, message }: Finding): string {
  return hash('sha1', JSON.stringify([ruleId, location.path ?? '', location.line ?? 0, message]), 'base64');
}

function entryOf(finding: Finding, shared: Map<string, string>): BaselineEntry {
  const { fingerprint, severity, location } = finding;
  const once = (text: string) => {
    const known = shared.get(text);
    if (known !== undefined) return known;
    shared.set(text, text);
    return text;
  };
  return {
    fingerprint,
    ruleId: once(finding.ruleId),
    severity,
    scope: location.scope,
    path: once(location.path ?? ''),
    line: location.line ?? 0,
    column: location.column ?? 0,
    placeKey: placeKeyOf(finding),
  };
}

function faultOf(header: ReportHeader, user: BaselineUser): string | undefined {
  if (header.tool.name !== user.tool.name) return `it was written by ${header.tool.name}, not by ${user.tool.name}`;
  if (header.execution.status === 'no-files') return 'its scan found no files';
  if (header.selection.baseline !== undefined) return 'it lists only what was new against another baseline';
  if (header.selection.quiet && !user.quiet) return 'it lists errors only; compare with --quiet or make a full one';
  return undefined;
}

function notesOn(header: ReportHeader, user: BaselineUser, name: string): string[] {
  const notes: string[] = [];
  if (header.execution.status === 'incomplete') {
    notes.push(`the baseline ${name} is incomplete: findings in the files that it missed may look new`);
  }
  if (header.tool.version !== user.tool.version) {
    notes.push(`the baseline ${name} was written by version ${header.tool.version}, this is ${user.tool.version}`);
  }
  if (header.scan.scopeKnown && header.scan.profile !== user.profile) {
    notes.push(`the baseline ${name} was made with the profile ${header.scan.profile ?? '(own configuration)'}`);
  }
  return notes;
}
