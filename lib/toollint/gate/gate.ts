// A gate is a name and a list of limits on the counts that remain after the baseline. An incomplete analysis never
// passes.
import { countKind } from '../document/build-report.ts';
import { countIn } from '../document/extension.ts';
import { ReportFailure } from '../document/failure.ts';
import type { Gate, ReportHeader, Severity } from '../document/report-schema.ts';

type Metric = 'errors' | 'warnings' | 'infos' | 'newIssues';

export interface GateConfig {
  readonly name: string;
  readonly limits: readonly { readonly metric: Metric; readonly max: number; readonly level: 'fail' | 'warn' }[];
}

const limit = (metric: Metric, max = 0, level: 'fail' | 'warn' = 'fail') => ({ metric, max, level });

const GATES: readonly GateConfig[] = [
  { name: 'default', limits: [limit('errors'), limit('warnings', 0, 'warn')] },
  { name: 'strict', limits: [limit('errors'), limit('warnings'), limit('infos')] },
  { name: 'new-code', limits: [limit('newIssues')] },
];

type GateRequest = { readonly name?: string | undefined; readonly limits?: Partial<Record<Metric, number>> };

/**
 * The limits apply in addition to those of the named gate; without a name, the gate is called 'cli'. Returns
 * `undefined` if no gate was requested. Throws ReportFailure ('gate') for an unknown gate or limit.
 */
export function chosenGate({ name, limits = {} }: GateRequest): GateConfig | undefined {
  const more = Object.entries(limits).map(([metric, max]) => {
    if (Number.isSafeInteger(max) && max >= 0) return limit(metric as Metric, max);
    throw new ReportFailure('gate', `the limit of ${metric} must be an integer of 0 or more`);
  });
  if (name === undefined) return more.length === 0 ? undefined : { name: 'cli', limits: more };
  const match = GATES.find((gate) => gate.name === name);
  if (match !== undefined) return { name, limits: [...match.limits, ...more] };
  throw new ReportFailure('gate', `unknown gate '${name}': known are ${GATES.map((gate) => gate.name).join(', ')}`);
}

/** With `errorsOnly`, the other counts are unknown: throws ReportFailure ('gate') for a limit on them. */
export function evaluateGate(
  gate: GateConfig | undefined,
  { execution, selection: { baseline } }: ReportHeader,
  bySeverity: Readonly<Record<Severity, number>>,
  errorsOnly: boolean,
): Gate {
  if (gate === undefined) return { status: 'not-evaluated' };
  const { name, limits } = gate;
  const unknown = limits.find(({ metric }) => errorsOnly && (metric === 'warnings' || metric === 'infos'));
  if (unknown !== undefined)
    throw new ReportFailure('gate', `${unknown.metric} cannot be evaluated: the report lists errors only`);
  if (execution.status !== 'complete') return { status: 'failed', name, message: unfinished(execution) };
  const { error: errors, warning: warnings, info: infos } = bySeverity;
  const counts = { errors, warnings, infos, newIssues: baseline?.newIssues ?? 0 };
  const violated = limits.filter(({ metric, max }) => counts[metric] > max);
  const parts = violated.map(({ metric, max, level }) => `${metric} ${counts[metric]} > ${max} (${level})`);
  const notVerifiable = countIn(baseline, 'notVerifiable');
  if (notVerifiable > 0) parts.push(`${notVerifiable} baseline findings are not verifiable`);
  const failed = violated.some(({ level }) => level === 'fail');
  const status = failed ? 'failed' : violated.length > 0 ? 'warning' : 'passed';
  return parts.length === 0 ? { status, name } : { status, name, message: parts.join('; ') };
}

/** Throws ReportFailure if the gate needs a baseline and there is none. Call this before long work. */
export function checkGateNeeds(gate: GateConfig | undefined, hasBaseline: boolean): void {
  if (hasBaseline || gate?.limits.some(({ metric }) => metric === 'newIssues') !== true) return;
  throw new ReportFailure('gate', `the gate '${gate.name}' asks for newIssues, which needs a baseline`);
}

function unfinished({ status, diagnostics }: ReportHeader['execution']): string {
  if (status === 'no-files') return 'no files were analyzed';
  const counts = (['parse-error', 'rule-error'] as const).flatMap((kind) => {
    const number = countKind(diagnostics, kind);
    return number === 0 ? [] : `${number} ${kind.replace('-', ' ')}${number === 1 ? '' : 's'}`;
  });
  return `analysis incomplete: ${counts.join(', ')}`;
}
