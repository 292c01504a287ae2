// Packages as users get them: built by bin/make-package.ts and installed by npm into empty folders.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync, type StdioOptions } from 'node:child_process';
import { lstatSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { temporaryFolder } from '../support/scope.ts';

export const ROOT = new URL('../../', import.meta.url).pathname;
const STDIO: StdioOptions = ['ignore', 'ignore', 'inherit'];
const NPM = ['--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error'];

export interface Manifest {
  readonly version: string;
  readonly bin: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly peerDependencies?: object;
  readonly engines: object;
}

export const ROOT_MANIFEST = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;

/** Puts the Node that runs the tests first on PATH, and lets each program choose its own compile cache. */
export const NODE_ON_PATH = {
  PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH'] ?? ''}`,
  NODE_COMPILE_CACHE: '',
};

export function makePackages(root = ROOT): string {
  const folder = temporaryFolder('ingest-packages-');
  execFileSync(join(ROOT, 'bin/node'), [join(root, 'bin/make-package.ts'), folder], { stdio: STDIO });
  return folder;
}

/** Returns a clone of the commit that landed last, with its dependencies. */
export function cloneOfBase(): string {
  const base = process.env['CI_BASE'] ?? readFileSync(join(ROOT, '.ci/base'), 'utf8').trim();
  const git = (...args: string[]): number | null => spawnSync('git', ['-C', ROOT, ...args]).status;
  assert.equal(git('cat-file', '-e', `${base}^{commit}`), 0, `${base} is not in this clone: git fetch --unshallow`);
  const clone = join(temporaryFolder('ingest-base-'), 'clone');
  execFileSync('git', ['clone', '--quiet', '--shared', '--no-checkout', ROOT, clone]);
  execFileSync('git', ['-C', clone, 'checkout', '--quiet', base]);
  if (git('diff', '--quiet', base, '--', 'package-lock.json') === 0)
    symlinkSync(join(ROOT, 'node_modules'), join(clone, 'node_modules'));
  else execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: clone, stdio: 'ignore' });
  return clone;
}

/** One package, installed with its dependencies in an otherwise empty folder. */
export class Installation {
  readonly folder = temporaryFolder('ingest-installed-');
  readonly name: string;

  constructor(packages: string, name: string) {
    this.name = name;
    writeFileSync(join(this.folder, 'package.json'), '{"private":true,"type":"module"}\n');
    const tarball = readdirSync(packages).find((file) => file.startsWith(`${name}-`) && file.endsWith('.tgz'));
    this.add(join(packages, tarball ?? ''));
  }

  get root(): string {
    return join(this.folder, 'node_modules', this.name);
  }

  /**
   * Installs more packages. npm runs inside the folder because it ignores the folder's configuration file with
   * `--prefix`.
   */
  add(...packages: readonly string[]): void {
    execFileSync('npm', ['install', ...NPM, ...packages], { cwd: this.folder, stdio: STDIO });
  }

  program(name: string): string {
    return join(this.folder, 'node_modules/.bin', name);
  }

  get files(): readonly string[] {
    const paths = readdirSync(this.root, { recursive: true, encoding: 'utf8' });
    return paths.filter((path) => lstatSync(join(this.root, path)).isFile());
  }

  /** Disk usage in bytes, including dependencies. */
  get bytes(): number {
    const paths = readdirSync(this.folder, { recursive: true, encoding: 'utf8' });
    return paths.reduce((sum, path) => sum + lstatSync(join(this.folder, path)).blocks * 512, 0);
  }
}
