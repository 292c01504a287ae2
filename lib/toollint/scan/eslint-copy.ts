// Which ESLint a scan runs: the one that the scanned root resolves, so that its rules meet the version they were
// written for; where it resolves none, the one that this package resolves.
//
// A configuration in TypeScript needs `jiti`, which ESLint looks for next to itself. Without it, the runtime's own type
// stripping reads the configuration.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type * as eslint from 'eslint';
import { messageOf, ReportFailure } from '../document/failure.ts';

const MAJOR_MIN = 9;

export interface EslintCopy {
  readonly ESLint: typeof eslint.ESLint;
  readonly version: string;
  /** Options for a configuration that is written in TypeScript. */
  readonly typescriptFlags: readonly string[];
}

/** The ESLint for a root. Throws ReportFailure ('config') when there is none that works. */
export function eslintFor(root: string): EslintCopy {
  for (const from of [join(root, 'package.json'), import.meta.filename]) {
    const require = createRequire(from);
    const version = versionAt(require, 'eslint');
    if (version === undefined) continue;
    if (Number.parseInt(version, 10) < MAJOR_MIN)
      throw new ReportFailure('config', `the root has ESLint ${version}, but a scan needs ESLint 9 or 10`);
    const fromEslint = createRequire(require.resolve('eslint/package.json'));
    const typescriptFlags = versionAt(fromEslint, 'jiti') === undefined ? ['unstable_native_nodejs_ts_config'] : [];
    return { ESLint: load(require, version), version, typescriptFlags };
  }
  throw new ReportFailure(
    'config',
    'a scan needs ESLint 9 or 10, which is not installed: npm install --save-dev eslint',
  );
}

function load(require: NodeJS.Require, version: string): typeof eslint.ESLint {
  try {
    return (require('eslint') as typeof eslint).ESLint;
  } catch (cause) {
    // Behind the first line is the list of the modules that asked for it.
    const reason = messageOf(cause).split(' Require stack:')[0] ?? '';
    throw new ReportFailure('config', `ESLint ${version} cannot be loaded: ${reason}`, cause);
  }
}

function versionAt(require: NodeJS.Require, name: string): string | undefined {
  try {
    return (JSON.parse(readFileSync(require.resolve(`${name}/package.json`), 'utf8')) as { version: string }).version;
  } catch {
    return undefined;
  }
}
