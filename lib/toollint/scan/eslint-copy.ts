// Finds the ESLint for a scan: the copy that the scanned root resolves, because the root's rules need that version,
// or else the copy that this package resolves.
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type * as eslint from 'eslint';
import { messageOf, ReportFailure } from '../document/failure.ts';

const MAJOR_MIN = 9;

export interface EslintCopy {
  readonly ESLint: typeof eslint.ESLint;
  readonly version: string;
}

export function eslintFor(root: string): EslintCopy {
  for (const from of [join(root, 'package.json'), import.meta.filename]) {
    const require = createRequire(from);
    const version = versionAt(require);
    if (version === undefined) continue;
    if (Number.parseInt(version, 10) < MAJOR_MIN)
      throw new ReportFailure('config', `the root has ESLint ${version}, but a scan needs ESLint 9 or 10`);
    return { ESLint: load(require, version), version };
  }
  throw new ReportFailure(
    'config',
    `a scan needs ESLint 9 or 10, which is not installed: npm install --save-dev eslint${otherLinterHint(root)}`,
  );
}

const OTHER_LINTERS: readonly (readonly [linter: string, names: RegExp])[] = [
  ['oxlint', /^(?:oxlint|\.?oxlint(?:rc|\.config)\.\w+)$/u],
  ['Biome', /^(?:\.?biome\.jsonc?|@biomejs\/biome)$/u],
  ['standard', /^(?:semi|ts-)?standard$/u],
];

/** Returns the end of a sentence that names the linter that the root uses in place of ESLint, or ''. */
export function otherLinterHint(root: string): string {
  const names = [...readdirSync(root), ...packagesOf(root)];
  const [linter] = OTHER_LINTERS.find(([, pattern]) => names.some((name) => pattern.test(name))) ?? [];
  return linter === undefined ? '' : `; for the SARIF of ${linter}, use toollint import --from sarif FILE`;
}

function packagesOf(root: string): string[] {
  try {
    const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Record<string, object | undefined>;
    return [manifest['dependencies'], manifest['devDependencies']].flatMap((list) => Object.keys(list ?? {}));
  } catch {
    return [];
  }
}

function load(require: NodeJS.Require, version: string): typeof eslint.ESLint {
  try {
    return (require('eslint') as typeof eslint).ESLint;
  } catch (cause) {
    // The rest of the message lists the requiring modules.
    const reason = messageOf(cause).split(' Require stack:')[0] ?? '';
    throw new ReportFailure('config', `ESLint ${version} cannot be loaded: ${reason}`, cause);
  }
}

function versionAt(require: NodeJS.Require): string | undefined {
  try {
    return (JSON.parse(readFileSync(require.resolve('eslint/package.json'), 'utf8')) as { version: string }).version;
  } catch {
    return undefined;
  }
}
