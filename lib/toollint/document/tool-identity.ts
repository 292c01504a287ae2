// The name and version under which this tool writes reports.
import { readFileSync } from 'node:fs';

/** `tool.name` of every report that is written here. */
export const TOOL_NAME = 'toollint';

/** `tool.version`: the version of the package that holds this file. */
export const TOOL_VERSION = packageVersion();

function packageVersion(): string {
  const text = readFileSync(new URL('../../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
