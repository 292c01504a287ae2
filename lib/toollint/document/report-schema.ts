// The code-analysis report as one TypeBox schema, which is the source of the static type, the compiled check and the
// published JSON Schema. It follows the section "Resources and their fields" of the specification, and allows members
// that the specification does not name.
import { type Static, type TProperties, Type } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import { FINGERPRINT_VERSION, SCHEMA_VERSION, SEVERITIES } from './report-format.ts';

const ordinal = () => Type.Integer({ exclusiveMinimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const oneOf = <const T extends string>(values: readonly T[]) => Type.Union(values.map((value) => Type.Literal(value)));
const strings = () => Type.Array(Type.String());
const open = <T extends TProperties>(properties: T) => Type.Object(properties, { additionalProperties: true });

const text = Type.String();
const maybeText = Type.Optional(text);
const number = Type.Number();

const diagnosticSchema = open({
  kind: oneOf(['parse-error', 'rule-error', 'no-files']),
  ...{ message: text, ruleId: maybeText, relativePath: maybeText },
});

const locationSchema = open({
  ...{ scope: oneOf(['file', 'project']), path: maybeText },
  ...{ line: Type.Optional(ordinal()), column: Type.Optional(ordinal()) },
});

const findingSchema = open({
  ...{ ruleId: text, severity: oneOf(SEVERITIES), message: text },
  ...{ fingerprint: text, fingerprintVersion: Type.Literal(FINGERPRINT_VERSION), occurrence: ordinal() },
  ...{ location: locationSchema, suggestion: maybeText, codeSnippet: maybeText, category: maybeText },
  ...{ issueType: maybeText, standardIds: strings(), docsUrl: maybeText },
});

const headerProperties = {
  schemaVersion: Type.Literal(SCHEMA_VERSION),
  tool: open({ name: text, version: text }),
  execution: open({ status: oneOf(['complete', 'incomplete', 'no-files']), diagnostics: Type.Array(diagnosticSchema) }),
  scan: open({
    scopeKnown: Type.Boolean(),
    target: Type.Union([open({ kind: oneOf(['file', 'project']), path: text }), Type.Null()]),
    ...{ timestamp: text, durationMs: Type.Number({ minimum: 0 }), profile: Type.Union([text, Type.Null()]) },
    ...{ enabledRuleIds: strings(), include: strings(), exclude: strings() },
  }),
  selection: open({
    quiet: Type.Boolean(),
    baseline: Type.Optional(open({ newIssues: number, unchanged: number, fixed: number })),
  }),
  gate: open({
    status: oneOf(['not-evaluated', 'passed', 'warning', 'failed']),
    ...{ name: maybeText, message: maybeText },
  }),
  summary: open({
    ...{ totalFiles: number, totalIssues: number, parseErrors: number, ruleErrors: number },
    bySeverity: open({ error: number, warning: number, info: number }),
  }),
};

export const reportSchema = open({ ...headerProperties, findings: Type.Array(findingSchema) });

export type Report = Static<typeof reportSchema>;
export type ReportHeader = { [Name in keyof typeof headerProperties]: Static<(typeof headerProperties)[Name]> };
export type Finding = Static<typeof findingSchema>;
export type Diagnostic = Static<typeof diagnosticSchema>;
export type Scan = ReportHeader['scan'];
export type Gate = ReportHeader['gate'];
export type Severity = Finding['severity'];
export type BaselineCounts = NonNullable<ReportHeader['selection']['baseline']>;

const check = TypeCompiler.Compile(reportSchema);

export const isReport = (value: unknown): value is Report => check.Check(value);

export function reportJsonSchema(): Record<string, unknown> {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Code-analysis report',
    description: 'The outcome of one scan. Members that are not named here are allowed.',
    ...(JSON.parse(JSON.stringify(reportSchema)) as Record<string, unknown>),
  };
}
