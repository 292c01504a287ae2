// The packages as a user has them: made by `make package`, installed by npm into empty folders, run from there.
import { execFileSync } from 'node:child_process';
import { lstatSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { temporaryFolder } from '../support/scope.ts';

export const ROOT = new URL('../../', import.meta.url).pathname;
const NPM = ['--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error'];

export interface Manifest {
  readonly version: string;
  readonly bin: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
}

export const ROOT_MANIFEST = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;

/**
 * The environment of an installed program: the node of these tests is the one on PATH, and what it compiles is kept
 * where the program itself says.
 */
export const NODE_ON_PATH = {
  PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH'] ?? ''}`,
  NODE_COMPILE_CACHE: '',
};

/** Makes the packages of the repository at `root`, and gives the folder they are in. */
export function makePackages(root = ROOT): string {
  const folder = temporaryFolder('ingest-packages-');
  execFileSync(join(ROOT, 'bin/node'), [join(root, 'bin/make-package.ts'), folder], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  return folder;
}

/** One tarball in an otherwise empty folder. */
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
   * Installs more packages beside it. In the folder itself: `--prefix` would also leave out npm's own configuration
   * file.
   */
  add(...packages: readonly string[]): void {
    execFileSync('npm', ['install', ...NPM, ...packages], {
      cwd: this.folder,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
  }

  program(name: string): string {
    return join(this.folder, 'node_modules/.bin', name);
  }

  /** The files of the package itself, by their paths in it. */
  get files(): readonly string[] {
    return readdirSync(this.root, { recursive: true, encoding: 'utf8' }).filter((path) =>
      lstatSync(join(this.root, path)).isFile(),
    );
  }

  /** Bytes on the disk of everything that was installed, dependencies too. */
  get bytes(): number {
    return readdirSync(this.folder, { recursive: true, encoding: 'utf8' }).reduce(
      (sum, path) => sum + lstatSync(join(this.folder, path)).blocks * 512,
      0,
    );
  }
}
