// Evaluates a gate. The verdict is made from all findings that count (after the baseline, before the quiet filter), and
// an analysis that did not run to its end never passes.
import { ReportFailure } from '../document/failure.ts';
import { countKind, isReserved } from '../document/consistency.ts';
import { TOOL_NAME } from '../document/tool-identity.ts';
import type { GateCondition, GateConfig } from './gate-config.ts';
import type { BaselineCounts, Finding, Gate, Report, ReportHeader, Severity } from '../document/report-schema.ts';

/** Counts findings for gates, as they pass by. */
export class GateTally {
  readonly bySeverity: Record<Severity, number> = { error: 0, warning: 0, info: 0 };
  readonly byRule = new Map<string, number>();
  readonly byCategory = new Map<string, number>();

  add({ severity, ruleId, category }: Finding): void {
    this.bySeverity[severity] += 1;
    this.byRule.set(ruleId, (this.byRule.get(ruleId) ?? 0) + 1);
    if (category !== undefined) this.byCategory.set(category, (this.byCategory.get(category) ?? 0) + 1);
  }
}

/** Counts findings for a gate. */
export function tallyOf(findings: Iterable<Finding>): GateTally {
  const tally = new GateTally();
  for (const finding of findings) tally.add(finding);
  return tally;
}

/** Everything a gate may ask about. */
export interface GateSubject {
  readonly tally: GateTally;
  readonly baseline: BaselineCounts | undefined;
  readonly execution: ReportHeader['execution'];
  readonly totalFiles: number;
  /** The tally holds errors only, because it was made from a quiet report. */
  readonly quiet: boolean;
  /** What the scan covered, and by which tool: rules and categories that it cannot know are refused. */
  readonly scan: ReportHeader['scan'];
  readonly tool: ReportHeader['tool'];
  /** Missing findings that are neither fixed nor there; told in the message. */
  readonly notVerifiable?: number;
}

/** The gate member of a report. Throws ReportFailure ('gate') when a condition cannot be evaluated. */
export function evaluateGate(gate: GateConfig | undefined, subject: GateSubject): Gate {
  if (gate === undefined) return { status: 'not-evaluated' };
  const applicable = gate.conditions.filter((condition) => isApplicable(condition, subject));
  const measured = applicable.map((condition) => ({ condition, actual: measure(condition.metric, subject) }));
  const { name } = gate;
  if (subject.execution.status !== 'complete')
    return { status: 'failed', name, message: unfinished(subject.execution) };
  const violated = measured.filter(({ condition, actual }) => isViolated(condition, actual));
  const failed = violated.some(({ condition }) => condition.level === 'fail');
  const parts = violated.map(
    ({ condition: { metric, op, threshold, level }, actual }) => `${metric} ${actual} ${op} ${threshold} (${level})`,
  );
  if (subject.notVerifiable !== undefined && subject.notVerifiable > 0) {
    parts.push(`${subject.notVerifiable} baseline findings are not verifiable`);
  }
  const status = failed ? 'failed' : violated.length > 0 ? 'warning' : 'passed';
  return parts.length === 0 ? { status, name } : { status, name, message: parts.join('; ') };
}

/** Throws ReportFailure when the gate asks about a baseline and there is none; for use before long work. */
export function checkGateNeeds(gate: GateConfig | undefined, hasBaseline: boolean): void {
  for (const { metric } of gate?.conditions ?? []) {
    if (!hasBaseline && BASELINE_METRICS.has(metric)) {
      throw new ReportFailure('gate', `the gate '${gate?.name ?? ''}' asks for ${metric}, which needs a baseline`);
    }
  }
}

/** What a linter's rules say of themselves, for our own reports. */
const CATEGORIES = ['problem', 'suggestion', 'layout'];

/**
 * Whether the report can have the rule or category. Throws for one that it cannot have, unless the condition is
 * optional: a misspelt one would count as 0 and let everything pass.
 */
function isApplicable({ metric, optional = false }: GateCondition, { scan, tool, tally }: GateSubject): boolean {
  if (!scan.scopeKnown) return true;
  const [kind = '', ...rest] = metric.split(':');
  const name = rest.join(':');
  const refuse = (fault: string) => {
    if (optional) return false;
    throw new ReportFailure('gate', `${metric} cannot be evaluated: ${fault}`);
  };
  if (kind === 'rule' && !tally.byRule.has(name) && !scan.enabledRuleIds.includes(name) && !isReserved(name))
    return refuse('the rule was not on in this scan');
  if (kind === 'category' && tool.name === TOOL_NAME && !tally.byCategory.has(name) && !CATEGORIES.includes(name))
    return refuse(`known are ${CATEGORIES.join(', ')}`);
  return true;
}

const BASELINE_METRICS: ReadonlySet<string> = new Set(['newIssues', 'newErrors', 'fixed']);

function unfinished({ status, diagnostics }: ReportHeader['execution']): string {
  if (status === 'no-files') return 'no files were analysed';
  const count = (kind: 'parse-error' | 'rule-error', one: string) => {
    const number = countKind(diagnostics, kind);
    return number === 0 ? [] : [`${number} ${one}${number === 1 ? '' : 's'}`];
  };
  return `analysis incomplete: ${[...count('parse-error', 'parse error'), ...count('rule-error', 'rule error')].join(', ')}`;
}

function isViolated({ op, threshold }: GateCondition, actual: number): boolean {
  switch (op) {
    case '>':
      return actual > threshold;
    case '>=':
      return actual >= threshold;
    case '<':
      return actual < threshold;
    case '<=':
      return actual <= threshold;
    case '==':
      return actual === threshold;
    case '!=':
      return actual !== threshold;
  }
}

function measure(metric: string, subject: GateSubject): number {
  const { tally, baseline, execution, totalFiles, quiet } = subject;
  const all = (count: number) => {
    if (quiet) throw new ReportFailure('gate', `${metric} cannot be evaluated: the report lists errors only`);
    return count;
  };
  const against = (count: (counts: BaselineCounts) => number) => {
    if (baseline === undefined) throw new ReportFailure('gate', `${metric} cannot be evaluated without a baseline`);
    return count(baseline);
  };
  const { error, warning, info } = tally.bySeverity;
  switch (metric) {
    case 'errors':
      return error;
    case 'warnings':
      return all(warning);
    case 'infos':
      return all(info);
    case 'issues':
      return all(error + warning + info);
    case 'newIssues':
      return against(({ newIssues }) => newIssues);
    case 'newErrors':
      return against(() => error);
    case 'fixed':
      return against(({ fixed }) => fixed);
    case 'parseErrors':
      return countKind(execution.diagnostics, 'parse-error');
    case 'ruleErrors':
      return countKind(execution.diagnostics, 'rule-error');
    case 'files':
      return totalFiles;
    default:
      break;
  }
  if (metric.startsWith('rule:')) return all(tally.byRule.get(metric.slice('rule:'.length)) ?? 0);
  if (metric.startsWith('category:')) return all(tally.byCategory.get(metric.slice('category:'.length)) ?? 0);
  throw new ReportFailure('gate', `unknown metric ${metric}`);
}

/** A report with its gate evaluated anew, and the errors that it lists. Throws ReportFailure when that cannot be. */
export function gate(report: Report, config: GateConfig): { report: Report; errors: number } {
  const { selection, execution, summary, scan, tool, findings } = report;
  const tally = tallyOf(findings);
  const { baseline, quiet } = selection;
  const subject = { tally, baseline, execution, totalFiles: summary.totalFiles, quiet, scan, tool };
  return { report: { ...report, gate: evaluateGate(config, subject) }, errors: tally.bySeverity.error };
}
