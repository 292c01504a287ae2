// What findings must agree on beyond the schema: with themselves (invariants 12 to 16 and 23) and, where the header is
// known before them, with the header (17, 19 and 20). Runs in the stream; memory is the table of fingerprints.
//
// Numbers 13, 17 and 19 tell how this project's own scans work; of another tool's report they are advice. The caller
// decides that, since the tool's name may come after the findings.
import { FingerprintTable } from './fingerprint-table.ts';
import type { Finding, ReportHeader, Severity } from './report-schema.ts';
import { isUnder, pathFault } from './report-path.ts';

/** Rule ids that no configuration enables: a file that does not parse, and the engine's own messages. */
export const PARSE_ERROR_RULE = 'PARSE-ERROR';
export const ENGINE_RULE = 'eslint/core';
const ENGINE_PREFIX = 'eslint/';

/** Whether findings may have this rule id although no configuration enables it. */
export function isReserved(ruleId: string): boolean {
  return ruleId === PARSE_ERROR_RULE || ruleId.startsWith(ENGINE_PREFIX);
}

/** Called for each contradiction with the invariant's number in the design. */
export type InvariantSink = (number: number, pointer: string, message: string) => void;

/** The header members that findings are held against. */
type FindingContext = Pick<ReportHeader, 'scan' | 'selection'>;

/** Checks a stream of findings. */
export class FindingConsistency {
  readonly bySeverity: Record<Severity, number> = { error: 0, warning: 0, info: 0 };

  readonly #sink: InvariantSink;
  readonly #table = new FingerprintTable();
  #total = 0;
  #fileScoped = 0;
  #firstFileScoped = -1;

  constructor(sink: InvariantSink) {
    this.#sink = sink;
  }

  get total(): number {
    return this.#total;
  }

  get fileScoped(): number {
    return this.#fileScoped;
  }

  /** Where the first finding with file scope stands, for invariant 9; -1: there is none. */
  get firstFileScoped(): number {
    return this.#firstFileScoped;
  }

  /** Invariants 12 to 16 and 23, and the counts. */
  add(finding: Finding, index: number): void {
    this.#total += 1;
    this.bySeverity[finding.severity] += 1;
    if (finding.location.scope === 'file') {
      this.#fileScoped += 1;
      if (this.#firstFileScoped < 0) this.#firstFileScoped = index;
    }
    this.#checkIdentity(finding, index);
    this.#checkLocation(finding, index);
    if (finding.ruleId === '') this.#sink(23, `/findings/${index}/ruleId`, 'the rule id is empty');
    if (finding.message === '') this.#sink(23, `/findings/${index}/message`, 'the message is empty');
  }

  #checkIdentity(finding: Finding, index: number): void {
    const { fingerprint, ruleId, location, occurrence } = finding;
    if (fingerprint === '') {
      this.#sink(23, `/findings/${index}/fingerprint`, 'the fingerprint is empty');
      return;
    }
    const { count, sameOwner } = this.#table.add(fingerprint, ruleId, location.scope, location.path ?? '');
    if (occurrence !== count) {
      this.#sink(
        12,
        `/findings/${index}/occurrence`,
        `expected occurrence ${count} of this fingerprint, found ${occurrence}`,
      );
    }
    if (!sameOwner) {
      this.#sink(13, `/findings/${index}/fingerprint`, 'another rule, scope or path has the same fingerprint');
    }
  }

  #checkLocation({ location }: Finding, index: number): void {
    const { scope, path, line, column } = location;
    const at = `/findings/${index}/location`;
    if (scope === 'project') {
      if (line !== undefined) this.#sink(14, `${at}/line`, 'a finding of the project has no line');
      else if (column !== undefined) this.#sink(14, `${at}/column`, 'a finding of the project has no column');
    } else if (path === undefined) {
      this.#sink(14, `${at}/path`, 'a finding in a file needs a path');
    } else if (column !== undefined && line === undefined) {
      this.#sink(15, `${at}/column`, 'a column needs a line');
    }
    if (path === undefined || (scope === 'project' && path === '.')) return;
    const fault = pathFault(path);
    if (fault !== undefined) this.#sink(16, `${at}/path`, fault);
  }
}

/** A check against the header: invariants 17, 19 and 20. */
export function findingContextCheck(
  context: FindingContext,
  sink: InvariantSink,
): (finding: Finding, index: number) => void {
  const { scan, selection } = context;
  const enabled = new Set(scan.enabledRuleIds);
  return (finding, index) => {
    const { ruleId, severity, location } = finding;
    if (selection.quiet && severity !== 'error') {
      sink(20, `/findings/${index}/severity`, 'a quiet report lists errors only');
    }
    if (scan.scopeKnown && !enabled.has(ruleId) && !isReserved(ruleId)) {
      sink(19, `/findings/${index}/ruleId`, 'the rule is not among the enabled rules');
    }
    if (scan.target === null || location.scope !== 'file' || location.path === undefined) return;
    if (pathFault(location.path) !== undefined) return;
    const { kind, path } = scan.target;
    const inside = kind === 'file' ? location.path === path : isUnder(location.path, path);
    if (!inside) sink(17, `/findings/${index}/location/path`, `the path is outside the target ${path}`);
  };
}
