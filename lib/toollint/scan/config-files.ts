// The configuration files of a root as far as the scan speaks of them: those that are not read, and those in
// TypeScript.
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { EngineOptions } from './lint-engine.ts';

/** ESLint's old configuration files, which neither ESLint 9 nor 10 reads by itself. */
export function legacyConfig(root: string): string | undefined {
  return readdirSync(root)
    .sort()
    .find((name) => /^\.eslintrc(?:\.(?:js|cjs|yaml|yml|json))?$/u.test(name));
}

/** Whether the configuration is, or may be, in TypeScript. */
export function hasTypescriptConfig({ root, config }: EngineOptions): boolean {
  const names = config === undefined ? ['eslint.config.ts', 'eslint.config.mts', 'eslint.config.cts'] : [];
  return /\.[cm]?ts$/u.test(basename(config ?? '')) || names.some((name) => existsSync(join(root, name)));
}

/** Whether a folder with these entries has a configuration of its own. */
export function hasOwnConfig(names: readonly string[]): boolean {
  return names.some((name) => /^eslint\.config\.[cm]?[jt]s$/u.test(name));
}

/** The message where neither the target nor the command line names rules. */
export function noConfig(root: string): string {
  const legacy = legacyConfig(root);
  const seen = legacy === undefined ? '' : ` (${legacy} is there, but is not read)`;
  return `no eslint.config.* was found for the files${seen}: write one, or name one with --config`;
}
