// Which ESLint a scan runs: the one that the scanned root runs itself, so that its rules meet the version they were
// written for; our own where the root has none, or one that is too old or too new.
//
// A configuration in TypeScript needs `jiti`, which ESLint looks for beside itself. It is looked for in the root as
// well, and where neither has it, the runtime's own type stripping reads the configuration.
import { readFileSync } from 'node:fs';
import { createRequire, registerHooks } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type * as eslint from 'eslint';
import type * as unsupported from 'eslint/use-at-your-own-risk';

const SUPPORTED = /^(?:9|10)\./u;

/** An ESLint that can be used. */
export interface EslintCopy {
  readonly ESLint: typeof eslint.ESLint;
  readonly builtinRules: typeof unsupported.builtinRules;
  readonly version: string;
  /** It is not the root's. */
  readonly isOwn: boolean;
  /** The version in the root, where that cannot be used. */
  readonly passedOver?: string;
  /** Options for a configuration that is written in TypeScript. */
  readonly typescriptFlags: readonly string[];
}

/** The ESLint for a root. Throws the loader's error when there is none. */
export async function eslintFor(root: string): Promise<EslintCopy> {
  const local = createRequire(join(root, 'package.json'));
  const version = versionAt(local, 'eslint');
  if (version !== undefined && SUPPORTED.test(version)) {
    lookForJitiIn(undefined);
    const own = createRequire(local.resolve('eslint/package.json'));
    const { ESLint: Class } = local('eslint') as typeof eslint;
    const { builtinRules: rules } = local('eslint/use-at-your-own-risk') as typeof unsupported;
    return { ESLint: Class, builtinRules: rules, version, isOwn: false, typescriptFlags: flagsFor(own) };
  }
  const rootHasJiti = versionAt(local, 'jiti') !== undefined;
  lookForJitiIn(rootHasJiti ? root : undefined);
  const [{ ESLint: Class }, { builtinRules: rules }] = await Promise.all([
    import('eslint'),
    import('eslint/use-at-your-own-risk'),
  ]);
  const typescriptFlags = rootHasJiti ? [] : flagsFor(createRequire(import.meta.resolve('eslint')));
  const copy = { ESLint: Class, builtinRules: rules, version: Class.version, isOwn: true, typescriptFlags };
  return version === undefined ? copy : { ...copy, passedOver: version };
}

function flagsFor(require: NodeJS.Require): string[] {
  return versionAt(require, 'jiti') === undefined ? ['unstable_native_nodejs_ts_config'] : [];
}

function versionAt(require: NodeJS.Require, name: string): string | undefined {
  try {
    return (JSON.parse(readFileSync(require.resolve(`${name}/package.json`), 'utf8')) as { version: string }).version;
  } catch {
    return undefined;
  }
}

/**
 * Where `jiti` is looked for in place of beside ESLint. The runtime has one table of hooks for all scans of a process.
 */
let jitiParent: string | undefined;
let isHooked = false;

/** From now on; undefined: beside ESLint. */
function lookForJitiIn(root: string | undefined): void {
  jitiParent = root === undefined ? undefined : pathToFileURL(join(root, 'package.json')).href;
  if (isHooked || root === undefined) return;
  isHooked = true;
  registerHooks({
    resolve: (specifier, context, next) =>
      jitiParent !== undefined && (specifier === 'jiti' || specifier.startsWith('jiti/'))
        ? next(specifier, { ...context, parentURL: jitiParent })
        : next(specifier, context),
  });
}
