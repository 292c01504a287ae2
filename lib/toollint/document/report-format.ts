// The report's fixed names and the order in which its members are written, as the specification's tables have them.
// Apart from the schema, because a program that only writes reports does without the schema's library: loading and compiling
// it took half of the start of a scan (bench/toollint/real-project.ts, warm). A test holds the two together.

import { readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';

/** `tool.name` of every report that is written here. */
export const TOOL_NAME = 'toollint';

/** `tool.version`: the version of the package that holds this file, wherever in the package it lies. */
export const TOOL_VERSION = packageVersion();

/** The only `schemaVersion` (specification, "Versioning", 1). */
export const SCHEMA_VERSION = 1;

/** The only `finding.fingerprintVersion` (specification, "Versioning", 2). */
export const FINGERPRINT_VERSION = 'toolLint/v1';

/** The specification's severities, in its order. */
export const SEVERITIES = ['error', 'warning', 'info'] as const;

/** Members in their order, each with those of the object, or of the objects of the list, that it holds. */
export interface MemberOrder {
  readonly [name: string]: MemberOrder;
}

const ordered = (...names: readonly string[]): MemberOrder => Object.fromEntries(names.map((name) => [name, {}]));

/** Members of one element of `findings`. */
export const FINDING_ORDER: MemberOrder = {
  ...ordered('ruleId', 'severity', 'message', 'fingerprint', 'fingerprintVersion', 'occurrence'),
  location: ordered('scope', 'path', 'line', 'column'),
  ...ordered('suggestion', 'codeSnippet', 'category', 'issueType', 'standardIds', 'docsUrl'),
};

/** The top-level members other than `findings`. */
export const HEADER_ORDER = {
  schemaVersion: {},
  tool: ordered('name', 'version'),
  execution: { status: {}, diagnostics: ordered('kind', 'message', 'ruleId', 'relativePath') },
  scan: {
    scopeKnown: {},
    target: ordered('kind', 'path'),
    ...ordered('timestamp', 'durationMs', 'profile', 'enabledRuleIds', 'include', 'exclude'),
  },
  selection: { quiet: {}, baseline: ordered('newIssues', 'unchanged', 'fixed') },
  gate: ordered('status', 'name', 'message'),
  summary: {
    ...ordered('totalFiles', 'totalIssues', 'parseErrors', 'ruleErrors'),
    bySeverity: ordered(...SEVERITIES),
  },
} as const satisfies MemberOrder;

/** The header's member names, in the order in which they are written. */
export const HEADER_NAMES = Object.keys(HEADER_ORDER) as (keyof typeof HEADER_ORDER)[];

function packageVersion(): string {
  const file = findPackageJSON(import.meta.url);
  if (file === undefined) throw new Error(`no package.json belongs to ${import.meta.url}`);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
