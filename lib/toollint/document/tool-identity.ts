// The name and version under which this tool writes reports.
import { readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';

/** `tool.name` of every report that is written here. */
export const TOOL_NAME = 'toollint';

/** `tool.version`: the version of the package that holds this file, wherever in the package it lies. */
export const TOOL_VERSION = packageVersion();

function packageVersion(): string {
  const file = findPackageJSON(import.meta.url);
  if (file === undefined) throw new Error(`no package.json belongs to ${import.meta.url}`);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
