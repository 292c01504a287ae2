// A baseline: an earlier report whose findings are known and do not count as new. It is refused rather than guessed at,
// because a baseline that is wrongly empty turns every finding new, and one that is wrongly full hides them.
//
// Memory: one small entry for each of its findings. It is read, never written and never removed.
import { hash } from 'node:crypto';
import { type ByteSource } from '../document/byte-source.ts';
import { ReportFailure } from '../document/failure.ts';
import { placeHalf } from '../document/fingerprint.ts';
import { ENGINE_RULE, PARSE_ERROR_RULE } from '../document/finding-consistency.ts';
import type { Finding, ReportHeader, Severity } from '../document/report-schema.ts';
import { openReport } from '../document/report-source.ts';

/** What matching needs of one old finding. */
export interface BaselineEntry {
  /** Its place in the baseline's list. */
  readonly index: number;
  readonly fingerprint: string;
  readonly ruleId: string;
  readonly severity: Severity;
  readonly scope: Finding['location']['scope'];
  /** '' when the finding has none. */
  readonly path: string;
  /** 0 when the finding has none. */
  readonly line: number;
  readonly column: number;
  /** Same for findings with the same rule, path, line and message, whatever its numbers. */
  readonly placeKey: string;
}

/** An accepted baseline. */
export interface Baseline {
  /** As the user gave it. */
  readonly name: string;
  readonly entries: BaselineEntry[];
  /** Only findings of severity error are compared. */
  readonly errorsOnly: boolean;
  /** Sentences for the person who reads standard error. */
  readonly notes: string[];
}

/** What the new report is, as far as it decides whether the baseline fits. */
interface BaselineUser {
  readonly tool: ReportHeader['tool'];
  readonly profile: string | null;
  readonly quiet: boolean;
}

/** How a baseline is read. */
interface BaselineOptions {
  /** Old path -> new path: its findings are those of the renamed files. */
  readonly renames?: ReadonlyMap<string, string> | undefined;
  /** Take a document that is valid by the specification, but not consistent. */
  readonly lenient?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Reads a baseline. Throws ReportFailure when it cannot serve as one. */
export async function readBaseline(
  source: ByteSource,
  user: BaselineUser,
  options: BaselineOptions = {},
): Promise<Baseline> {
  const { renames, lenient = false, signal } = options;
  const report = await openReport(source, { consistency: !lenient, signal }).catch((cause: unknown) => {
    if (cause instanceof ReportFailure)
      throw new ReportFailure('baseline', `the baseline cannot be used: ${cause.message}`, cause);
    throw cause;
  });
  const { header } = report;
  const fault = faultOf(header, user);
  if (fault !== undefined) throw new ReportFailure('baseline', `the baseline ${source.name} cannot be used: ${fault}`);
  const errorsOnly = header.selection.quiet;
  const entries: BaselineEntry[] = [];
  const shared = new Map<string, string>();
  let index = -1;
  for await (const batch of report.findings()) {
    for (const finding of batch) {
      index += 1;
      if (isNeverBaselined(finding) || (errorsOnly && finding.severity !== 'error')) continue;
      entries.push(entryOf(index, renames === undefined ? finding : renamed(finding, renames), shared));
    }
  }
  return { name: source.name, entries, errorsOnly, notes: notesOn(header, user, source.name) };
}

/** A file that does not parse, and the engine's own messages, always count as new. */
export function isNeverBaselined({ ruleId }: Pick<Finding, 'ruleId'>): boolean {
  return ruleId === PARSE_ERROR_RULE || ruleId === ENGINE_RULE;
}

/**
 * Digest of (rule, path, line, message), the identity of a finding whose line was edited in place. Numbers in the
 * message do not count: "too many lines (301)" is the same finding at 302.
 */
export function placeKeyOf({ ruleId, location, message }: Finding): string {
  const text = message.replace(/[0-9]+/gu, '#');
  return hash('sha1', JSON.stringify([ruleId, location.path ?? '', location.line ?? 0, text]), 'base64');
}

/** The finding at its file's new path, with the half of its fingerprint that names the place. */
export function renamed(finding: Finding, renames: ReadonlyMap<string, string>): Finding {
  const { location, fingerprint } = finding;
  const path = location.path === undefined ? undefined : renames.get(location.path);
  if (path === undefined || location.scope !== 'file') return finding;
  const isOurs = fingerprint.length === 64 && fingerprint.endsWith(placeHalf('file', location.path ?? ''));
  const moved = isOurs ? fingerprint.slice(0, 32) + placeHalf('file', path) : fingerprint;
  return { ...finding, fingerprint: moved, location: { ...location, path } };
}

function entryOf(index: number, finding: Finding, shared: Map<string, string>): BaselineEntry {
  const { fingerprint, severity, location } = finding;
  const once = (text: string) => {
    const known = shared.get(text);
    if (known !== undefined) return known;
    shared.set(text, text);
    return text;
  };
  return {
    index,
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
