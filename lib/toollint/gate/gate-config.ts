// A gate is a name and a list of conditions on counts. Unknown names are refused, because a misspelled metric would
// always be 0, so the gate could pass every report.
import { ReportFailure } from '../document/failure.ts';
import { isObject, looseJson } from '../document/strict-json.ts';

export const METRICS = [
  'errors',
  'warnings',
  'infos',
  'issues',
  'newIssues',
  'newErrors',
  'fixed',
  'parseErrors',
  'ruleErrors',
  'files',
] as const;

/** A condition is violated if `actual op threshold` holds. */
export const OPERATORS = {
  '>': (actual: number, threshold: number) => actual > threshold,
  '>=': (actual: number, threshold: number) => actual >= threshold,
  '<': (actual: number, threshold: number) => actual < threshold,
  '<=': (actual: number, threshold: number) => actual <= threshold,
  '==': (actual: number, threshold: number) => actual === threshold,
  '!=': (actual: number, threshold: number) => actual !== threshold,
};

export const LEVELS = ['fail', 'warn'] as const;

export interface GateCondition {
  readonly metric: string;
  readonly op: keyof typeof OPERATORS;
  readonly threshold: number;
  readonly level: (typeof LEVELS)[number];
  /** Ignores the condition if the report cannot contain the rule or category. By default, this is an error. */
  readonly optional?: boolean;
}

export interface GateConfig {
  readonly name: string;
  readonly conditions: GateCondition[];
}

const above = (metric: string, threshold: number, level: GateCondition['level'] = 'fail'): GateCondition => ({
  metric,
  op: '>',
  threshold,
  level,
});

export const BUILT_IN_GATES: readonly [GateConfig, ...GateConfig[]] = [
  { name: 'default', conditions: [above('errors', 0), above('warnings', 0, 'warn')] },
  { name: 'strict', conditions: ['errors', 'warnings', 'infos', 'ruleErrors'].map((metric) => above(metric, 0)) },
  { name: 'new-code', conditions: [above('newIssues', 0)] },
];

const refusal = (message: string): ReportFailure => new ReportFailure('gate', message);

interface GateRequest {
  readonly name?: string | undefined;
  readonly config?: { text: string; file: string } | undefined;
  readonly limits?: Partial<Record<'errors' | 'warnings' | 'infos' | 'newIssues', number>>;
}

/** Returns `undefined` if no gate was requested. Throws ReportFailure ('gate') for an unknown gate. */
export function chosenGate({ name, config, limits = {} }: GateRequest): GateConfig | undefined {
  const own = config === undefined ? [] : parseGates(config.text, config.file);
  const limited = Object.entries(limits).map(([metric, limit]) =>
    above(metric, checkedThreshold(limit, `the limit of ${metric}`)),
  );
  const named = name === undefined ? onlyGate(own, config?.file) : gateNamed(name, own);
  if (named === undefined) return limited.length === 0 ? undefined : { name: 'cli', conditions: limited };
  return { name: named.name, conditions: [...named.conditions, ...limited] };
}

function onlyGate(own: readonly GateConfig[], file: string | undefined): GateConfig | undefined {
  if (own.length > 1) throw refusal(`${file ?? 'the gate file'} has ${own.length} gates: choose one with --gate`);
  return own[0];
}

function gateNamed(name: string, own: readonly GateConfig[]): GateConfig {
  const known = [...BUILT_IN_GATES, ...own];
  const found = known.find((gate) => gate.name === name);
  if (found !== undefined) return found;
  throw refusal(`unknown gate '${name}': known are ${known.map((gate) => gate.name).join(', ')}`);
}

/** Accepts one gate, a list of gates, or an object with the list as `gates`. */
function parseGates(text: string, file: string): GateConfig[] {
  const value = looseJson(text, (fault) => {
    throw refusal(`${file} is ${fault}`);
  });
  const list = Array.isArray(value)
    ? value
    : isObject(value) && Array.isArray(value['gates'])
      ? value['gates']
      : [value];
  const gates = list.map((gate: unknown) => parseGate(gate, file));
  if (gates.length === 0) throw refusal(`${file} has no gate`);
  const names = new Set(BUILT_IN_GATES.map((gate) => gate.name));
  for (const { name } of gates) {
    if (names.has(name)) throw refusal(`${file}: the gate name '${name}' is taken`);
    names.add(name);
  }
  return gates;
}

function parseGate(value: unknown, file: string): GateConfig {
  if (!isObject(value)) throw refusal(`${file}: a gate is an object with name and conditions`);
  onlyMembers(value, ['name', 'conditions'], `${file}: a gate`);
  const { name, conditions } = value;
  if (typeof name !== 'string' || name.trim() === '') throw refusal(`${file}: a gate needs a name`);
  if (!Array.isArray(conditions)) throw refusal(`${file}: the gate '${name}' needs a list of conditions`);
  return {
    name,
    conditions: conditions.map((condition: unknown) => parseCondition(condition, `${file}: gate '${name}'`)),
  };
}

function parseCondition(value: unknown, where: string): GateCondition {
  if (!isObject(value)) throw refusal(`${where}: a condition is an object`);
  onlyMembers(value, ['metric', 'op', 'threshold', 'level', 'optional'], `${where}: a condition`);
  const { metric, op, threshold, level, optional } = value;
  const named =
    typeof metric === 'string' && (METRICS.some((known) => known === metric) || /^(?:rule|category):./su.test(metric));
  if (!named) throw refusal(`${where}: unknown metric ${JSON.stringify(metric)}`);
  if (optional !== undefined && typeof optional !== 'boolean')
    throw refusal(`${where}: optional is true or false, not ${JSON.stringify(optional)}`);
  return {
    ...(optional === undefined ? {} : { optional }),
    metric,
    op: member(Object.keys(OPERATORS) as (keyof typeof OPERATORS)[], op, `${where}: unknown op`),
    threshold: checkedThreshold(threshold, `${where}: the threshold of ${metric}`),
    level: member(LEVELS, level, `${where}: unknown level`),
  };
}

function member<T extends string>(values: readonly T[], value: unknown, complaint: string): T {
  const found = values.find((known) => known === value);
  if (found === undefined)
    throw refusal(`${complaint} ${JSON.stringify(value) ?? '(missing)'}: known are ${values.join(' ')}`);
  return found;
}

function checkedThreshold(value: unknown, what: string): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) {
    throw refusal(`${what} must be an integer of 0 or more`);
  }
  return value;
}

function onlyMembers(value: Record<string, unknown>, allowed: readonly string[], what: string): void {
  const odd = Object.keys(value).find((name) => !allowed.includes(name));
  if (odd !== undefined) throw refusal(`${what} has no member '${odd}'`);
}
