// `make package` builds the packages that users install. The code is compiled to JavaScript, because Node does not
// strip types from files in node_modules.
//
// For each package, bin/packages has a manifest and a tsconfig.json with its entry points. The package contains the
// modules that these import, launchers, Lua files, pages and documents. The output, NAME-VERSION.tgz and a bill of
// materials, NAME-VERSION.cdx.json (CycloneDX), is written to the folder in the first argument, or to `package/`.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { BUILD } from '../lib/process/program.ts';
import { print, showStep } from './terminal.ts';

const root = resolve(import.meta.dirname, '..');
const target = resolve(process.argv[2] ?? join(root, 'package'));

/** For each package, the files that it contains besides code: path in the repository -> path in the package. */
const DOCUMENTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'ingest-gateway': {
    'README.md': 'README.md',
    openapi: 'openapi',
    deploy: 'deploy',
    'bin/development-certificates': 'bin/development-certificates',
    'bin/ensure-command': 'bin/ensure-command',
    'bin/install-debian-packages': 'bin/install-debian-packages',
  },
  'ingest-client': { 'lib/send/README.md': 'README.md' },
  toollint: {
    'lib/toollint/README.md': 'README.md',
    'openapi/code-analysis-report.schema.json': 'openapi/code-analysis-report.schema.json',
  },
};

interface Manifest {
  readonly license: string;
  readonly engines: { readonly node: string };
  readonly bin: Readonly<Record<string, string>>;
}

const readManifest = (path: string): Manifest => JSON.parse(readFileSync(join(root, path), 'utf8')) as Manifest;
const { license } = readManifest('package.json');
const { revision } = BUILD;
const isChanged = revision !== 'unknown' && run(root, 'git', ['status', '--porcelain', '--untracked-files=no']) !== '';
const version = `${BUILD.version}${isChanged ? '.dirty' : ''}`;
/** What stands for the version in the files of `deploy`. A tag of an image has no `+`. */
const STAMPS: readonly (readonly [RegExp, string])[] = [
  [/(?<=ingest-gateway:|newTag: )VERSION\b/g, version.replaceAll('+', '-')],
  [/(?<=^ARG VERSION=)unknown$/m, version],
  [/(?<=^ARG REVISION=)unknown$/m, revision],
];

rmSync(target, { recursive: true, force: true });
for (const [name, documents] of Object.entries(DOCUMENTS)) {
  const stage = join(target, name);
  showStep(`building the package ${name} ...`);
  const manifest = {
    ...readManifest(`bin/packages/${name}/package.json`),
    version,
    license,
    revision,
    type: 'module',
  };
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  run(root, process.execPath, [tsc, '--project', `bin/packages/${name}`, '--outDir', stage]);
  if (existsSync(join(root, `bin/packages/${name}/commonjs.json`))) {
    const commonjs = join(stage, 'commonjs');
    run(root, process.execPath, [tsc, '--project', `bin/packages/${name}/commonjs.json`, '--outDir', commonjs]);
    writeFileSync(join(commonjs, 'package.json'), '{ "type": "commonjs" }\n');
  }
  copyLaunchers(manifest, stage);
  for (const path of globSync('lib/**/*.{lua,html,js,txt}', { cwd: root }))
    if (existsSync(join(stage, dirname(path), path.endsWith('.lua') ? '..' : '.')))
      cpSync(join(root, path), join(stage, path));
  for (const [from, to] of Object.entries({ ...documents, LICENSE: 'LICENSE' }))
    cpSync(join(root, from), join(stage, to), { recursive: true });
  for (const path of globSync('deploy/**/{*.md,*.yaml,Containerfile}', { cwd: stage })) stamp(join(stage, path));
  writeFileSync(join(stage, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`);
  writeFileSync(join(target, `${name}-${version}.cdx.json`), billOfMaterials(manifest));
  run(stage, 'npm', ['pack', '--loglevel=error', '--pack-destination', target]);
  rmSync(stage, { recursive: true });
  showStep('');
  print(`${relative(process.cwd(), join(target, `${name}-${version}.tgz`))}\n`);
}

function stamp(path: string): void {
  const text = STAMPS.reduce((changed, [from, to]) => changed.replace(from, to), readFileSync(path, 'utf8'));
  writeFileSync(path, text);
}

/** Copies the shell scripts that start the programs, and bin/node. Programs that are JavaScript files need neither. */
function copyLaunchers({ bin, engines }: Manifest, stage: string): void {
  for (const [name, path] of Object.entries(bin).filter(([, file]) => !file.endsWith('.js'))) {
    const launcher = readFileSync(join(root, path), 'utf8').replaceAll(`${name}.ts`, `${name}.js`);
    writeFileSync(join(stage, path), launcher, { mode: 0o755 });
    const node = readFileSync(join(root, 'bin/installed-node'), 'utf8');
    const needed = node.replace('needs=26', `needs=${engines.node.slice('>='.length)}`);
    writeFileSync(join(stage, 'bin/node'), needed, { mode: 0o755 });
  }
}

/**
 * Returns a bill of materials with the versions in the lock file: npm reduces a copy of that file to the dependencies
 * of this package. Peer dependencies are removed from the manifest, because npm would omit a dependency that is also
 * a peer dependency of another one.
 */
function billOfMaterials(manifest: Manifest): string {
  const folder = join(target, 'sbom');
  mkdirSync(folder);
  const text = JSON.stringify({ ...manifest, peerDependencies: undefined, peerDependenciesMeta: undefined });
  writeFileSync(join(folder, 'package.json'), text);
  cpSync(join(root, 'package-lock.json'), join(folder, 'package-lock.json'));
  const offline = ['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  run(folder, 'npm', ['install', '--package-lock-only', ...offline]);
  const sbom = run(folder, 'npm', ['sbom', '--sbom-format=cyclonedx', '--package-lock-only', '--loglevel=error']);
  rmSync(folder, { recursive: true });
  return sbom;
}

function run(cwd: string, program: string, args: readonly string[]): string {
  return execFileSync(program, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
}
