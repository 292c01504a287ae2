// The fixed names of the specification. They are separate from the schema, because loading and compiling the schema
// library took half of the startup time of a scan.

import { readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';

export const TOOL_NAME = 'toollint';
export const TOOL_URI = 'https://www.npmjs.com/package/toollint';
export const TOOL_VERSION = (
  JSON.parse(readFileSync(findPackageJSON(import.meta.url) ?? '', 'utf8')) as { version: string }
).version;

export const SCHEMA_VERSION = 1;
export const FINGERPRINT_VERSION = 'toolLint/v1';

export const SEVERITIES = ['error', 'warning', 'info'] as const;

/** Rule ids that no configuration enables: for files that do not parse, and for ESLint's own messages. */
export const PARSE_ERROR_RULE = 'PARSE-ERROR';
export const ENGINE_RULE = 'eslint/core';

export const isReserved = (ruleId: string) => ruleId === PARSE_ERROR_RULE || ruleId.startsWith('eslint/');
