// Evaluates a gate on the findings that remain after the baseline. An incomplete analysis never passes.
import { ReportFailure } from '../document/failure.ts';
import { countKind, countSeverities, isReserved } from '../document/consistency.ts';
import { TOOL_NAME } from '../document/report-format.ts';
import { type GateCondition, type GateConfig, METRICS, OPERATORS } from './gate-config.ts';
import type { BaselineCounts, Finding, Gate, Report, ReportHeader } from '../document/report-schema.ts';

export function tallyOf(findings: readonly Finding[]) {
  const countBy = (keyOf: (finding: Finding) => string | undefined) => {
    const counts = new Map<string, number>();
    for (const key of findings.map(keyOf)) if (key !== undefined) counts.set(key, (counts.get(key) ?? 0) + 1);
    return counts;
  };
  const [byRule, byCategory] = [countBy(({ ruleId }) => ruleId), countBy(({ category }) => category)];
  return { bySeverity: countSeverities(findings), byRule, byCategory };
}

interface GateSubject extends Pick<ReportHeader, 'execution' | 'scan' | 'tool'> {
  readonly tally: ReturnType<typeof tallyOf>;
  readonly baseline: BaselineCounts | undefined;
  readonly totalFiles: number;
  /** True if the report lists only errors, so other counts are unknown. */
  readonly quiet: boolean;
  readonly notVerifiable?: number;
}

/** Throws ReportFailure ('gate') if a condition cannot be evaluated. */
export function evaluateGate(gate: GateConfig | undefined, subject: GateSubject): Gate {
  if (gate === undefined) return { status: 'not-evaluated' };
  const applicable = gate.conditions.filter((condition) => isApplicable(condition, subject));
  const measured = applicable.map((condition) => ({ condition, actual: measure(condition.metric, subject) }));
  const { name } = gate;
  if (subject.execution.status !== 'complete')
    return { status: 'failed', name, message: unfinished(subject.execution) };
  const violated = measured.filter(({ condition: { op, threshold }, actual }) => OPERATORS[op](actual, threshold));
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

/** Throws ReportFailure if the gate needs a baseline and there is none. Call this before long work. */
export function checkGateNeeds(gate: GateConfig | undefined, hasBaseline: boolean): void {
  if (gate === undefined || hasBaseline) return;
  for (const { metric } of gate.conditions) {
    if (BASELINE_METRICS.has(metric))
      throw new ReportFailure('gate', `the gate '${gate.name}' asks for ${metric}, which needs a baseline`);
  }
}

const CATEGORIES = ['problem', 'suggestion', 'layout'];

/**
 * Returns false for an optional condition that the report cannot answer. Throws if the condition is not optional: the
 * count of a misspelled rule would always be 0, so the gate could pass every report.
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

/** Returns notes about rules and categories that an imported report does not list, so that their count is 0. */
export function gateNotes(
  gate: GateConfig | undefined,
  { scopeKnown }: ReportHeader['scan'],
  findings: readonly Finding[],
): string[] {
  if (scopeKnown || gate === undefined) return [];
  const { byRule, byCategory } = tallyOf(findings);
  const isAbsent = (metric: string) =>
    (metric.startsWith('rule:') && !byRule.has(metric.slice('rule:'.length))) ||
    (metric.startsWith('category:') && !byCategory.has(metric.slice('category:'.length)));
  const absent = gate.conditions.map(({ metric }) => metric).filter(isAbsent);
  return absent.map((metric) => `the gate asks for ${metric}, which the report does not list: it counts as 0`);
}

const BASELINE_METRICS: ReadonlySet<string> = new Set(['newIssues', 'newErrors', 'fixed']);

function unfinished({ status, diagnostics }: ReportHeader['execution']): string {
  if (status === 'no-files') return 'no files were analyzed';
  const counts = (['parse-error', 'rule-error'] as const).flatMap((kind) => {
    const number = countKind(diagnostics, kind);
    return number === 0 ? [] : [`${number} ${kind.replace('-', ' ')}${number === 1 ? '' : 's'}`];
  });
  return `analysis incomplete: ${counts.join(', ')}`;
}

/** A measure returns `undefined` if it needs a baseline and there is none. */
const MEASURES: Readonly<Record<(typeof METRICS)[number], (subject: GateSubject) => number | undefined>> = {
  errors: ({ tally }) => tally.bySeverity.error,
  warnings: ({ tally }) => tally.bySeverity.warning,
  infos: ({ tally }) => tally.bySeverity.info,
  issues: ({ tally: { bySeverity } }) => bySeverity.error + bySeverity.warning + bySeverity.info,
  newIssues: ({ baseline }) => baseline?.newIssues,
  newErrors: ({ baseline, tally }) => (baseline === undefined ? undefined : tally.bySeverity.error),
  fixed: ({ baseline }) => baseline?.fixed,
  parseErrors: ({ execution }) => countKind(execution.diagnostics, 'parse-error'),
  ruleErrors: ({ execution }) => countKind(execution.diagnostics, 'rule-error'),
  files: ({ totalFiles }) => totalFiles,
};

function measure(metric: string, subject: GateSubject): number {
  const refuse = (fault: string): never => {
    throw new ReportFailure('gate', `${metric} cannot be evaluated${fault}`);
  };
  const { byRule, byCategory } = subject.tally;
  const [kind = '', ...rest] = metric.split(':');
  const named = METRICS.find((known) => known === metric);
  if (subject.quiet && (rest.length > 0 || ['warnings', 'infos', 'issues'].includes(metric)))
    refuse(': the report lists errors only');
  if (named !== undefined) return MEASURES[named](subject) ?? refuse(' without a baseline');
  if (kind !== 'rule' && kind !== 'category') throw new ReportFailure('gate', `unknown metric ${metric}`);
  return (kind === 'rule' ? byRule : byCategory).get(rest.join(':')) ?? 0;
}

export function gate(report: Report, config: GateConfig): { report: Report; errors: number; notes: string[] } {
  const { selection, execution, summary, scan, tool, findings } = report;
  const tally = tallyOf(findings);
  const { baseline, quiet } = selection;
  const subject = { tally, baseline, execution, totalFiles: summary.totalFiles, quiet, scan, tool };
  const notes = gateNotes(config, scan, findings);
  return { report: { ...report, gate: evaluateGate(config, subject) }, errors: tally.bySeverity.error, notes };
}
