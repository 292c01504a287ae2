// The report's fixed names, as the specification's tables have them. Apart from the schema, because a program that only
// writes reports does without the schema's library: loading and compiling it took half of the start of a scan.

import { readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';

/** `tool.name` of every report that is written here. */
export const TOOL_NAME = 'toollint';

/** The page of the package. */
export const TOOL_URI = 'https://www.npmjs.com/package/toollint';

/** `tool.version`: the version of the package that holds this file, wherever in the package it lies. */
export const TOOL_VERSION = (
  JSON.parse(readFileSync(findPackageJSON(import.meta.url) ?? '', 'utf8')) as { version: string }
).version;

/** The only `schemaVersion` (specification, "Versioning", 1). */
export const SCHEMA_VERSION = 1;

/** The only `finding.fingerprintVersion` (specification, "Versioning", 2). */
export const FINGERPRINT_VERSION = 'toolLint/v1';

/** The specification's severities, in its order. */
export const SEVERITIES = ['error', 'warning', 'info'] as const;
