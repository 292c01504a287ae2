// The configuration files of a root as far as the scan speaks of them: those that are not read, and those in
// TypeScript.
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { EslintCopy } from './eslint-copy.ts';
import type { EngineOptions } from './lint-engine.ts';

/** ESLint's old configuration files, which neither ESLint 9 nor 10 reads by itself. */
function legacyConfig(root: string): string | undefined {
  return readdirSync(root)
    .sort()
    .find((name) => /^\.eslintrc(?:\.(?:js|cjs|yaml|yml|json))?$/u.test(name));
}

/** Sentences for standard error: what of the root is passed over. */
export function notesOn({ root, profile }: EngineOptions, { version, passedOver }: EslintCopy): string[] {
  const notes: string[] = [];
  if (passedOver !== undefined)
    notes.push(`the root has ESLint ${passedOver}, which is not supported: ESLint ${version} is used`);
  const legacy = profile === null ? legacyConfig(root) : undefined;
  if (legacy !== undefined) notes.push(`${legacy} is not read: only eslint.config.* is`);
  return notes;
}

/** Whether the configuration is, or may be, in TypeScript. */
export function hasTypescriptConfig({ root, config }: EngineOptions): boolean {
  const names = config === undefined ? ['eslint.config.ts', 'eslint.config.mts', 'eslint.config.cts'] : [];
  return /\.[cm]?ts$/u.test(basename(config ?? '')) || names.some((name) => existsSync(join(root, name)));
}

/** Told when neither the target nor the command line names rules. */
export function noConfig(root: string): string {
  const legacy = legacyConfig(root);
  const seen = legacy === undefined ? '' : ` (${legacy} is there, but is not read)`;
  return `no eslint.config.* was found for the files${seen}: write one, name one with --config, or take a bundled one with --profile recommended`;
}
