// The fixed names of the specification. Separate from the schema, because loading and compiling the schema library took
// half of the start of a scan.

import { readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';

export const TOOL_NAME = 'toollint';

export const TOOL_URI = 'https://www.npmjs.com/package/toollint';

/** The version of the package that contains this file. */
export const TOOL_VERSION = (
  JSON.parse(readFileSync(findPackageJSON(import.meta.url) ?? '', 'utf8')) as { version: string }
).version;

export const SCHEMA_VERSION = 1;

export const FINGERPRINT_VERSION = 'toolLint/v1';

export const SEVERITIES = ['error', 'warning', 'info'] as const;
