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

const diagnosticSchema = open({
  kind: oneOf(['parse-error', 'rule-error', 'no-files']),
  message: Type.String(),
  ruleId: Type.Optional(Type.String()),
  relativePath: Type.Optional(Type.String()),
});

const locationSchema = open({
  scope: oneOf(['file', 'project']),
  path: Type.Optional(Type.String()),
  line: Type.Optional(ordinal()),
  column: Type.Optional(ordinal()),
});

const findingSchema = open({
  ruleId: Type.String(),
  severity: oneOf(SEVERITIES),
  message: Type.String(),
  fingerprint: Type.String(),
  fingerprintVersion: Type.Literal(FINGERPRINT_VERSION),
  occurrence: ordinal(),
  location: locationSchema,
  suggestion: Type.Optional(Type.String()),
  codeSnippet: Type.Optional(Type.String()),
  category: Type.Optional(Type.String()),
  issueType: Type.Optional(Type.String()),
  standardIds: strings(),
  docsUrl: Type.Optional(Type.String()),
});

const headerProperties = {
  schemaVersion: Type.Literal(SCHEMA_VERSION),
  tool: open({ name: Type.String(), version: Type.String() }),
  execution: open({ status: oneOf(['complete', 'incomplete', 'no-files']), diagnostics: Type.Array(diagnosticSchema) }),
  scan: open({
    scopeKnown: Type.Boolean(),
    target: Type.Union([open({ kind: oneOf(['file', 'project']), path: Type.String() }), Type.Null()]),
    timestamp: Type.String(),
    durationMs: Type.Number({ minimum: 0 }),
    profile: Type.Union([Type.String(), Type.Null()]),
    enabledRuleIds: strings(),
    include: strings(),
    exclude: strings(),
  }),
  selection: open({
    quiet: Type.Boolean(),
    baseline: Type.Optional(open({ newIssues: Type.Number(), unchanged: Type.Number(), fixed: Type.Number() })),
  }),
  gate: open({
    status: oneOf(['not-evaluated', 'passed', 'warning', 'failed']),
    name: Type.Optional(Type.String()),
    message: Type.Optional(Type.String()),
  }),
  summary: open({
    totalFiles: Type.Number(),
    totalIssues: Type.Number(),
    parseErrors: Type.Number(),
    ruleErrors: Type.Number(),
    bySeverity: open({ error: Type.Number(), warning: Type.Number(), info: Type.Number() }),
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
