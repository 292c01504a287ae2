// `make package`: the packages that users install, compiled to JavaScript, because node strips no types under
// node_modules.
//
// Each package is what its programs and its library entry reach by imports, and nothing else: so nothing of toollint
// gets into ingest-gateway, or the other way round, and a dependency that no file imports is not declared. Launchers,
// Lua files and documents are copied beside. For each package `package/` holds NAME-VERSION.tgz and
// NAME-VERSION.cdx.json, its bill of materials (CycloneDX, by `npm sbom`), with the versions of this repository's lock
// file.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import ts from 'typescript';

const root = resolve(import.meta.dirname, '..');
/** The first argument: another folder than `package/`. */
const target = resolve(process.argv[2] ?? join(root, 'package'));

interface Manifest {
  readonly version: string;
  readonly license: string;
  readonly engines: Readonly<Record<string, string>>;
  readonly bin: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta: Readonly<Record<string, unknown>>;
}

interface Package {
  readonly name: string;
  readonly description: string;
  /** The names of its programs in the root manifest's `bin`. */
  readonly programs: readonly string[];
  /** The module that `import … from '<name>'` gives. */
  readonly library?: string;
  /** From the repository's root -> in the package. */
  readonly documents: Readonly<Record<string, string>>;
}

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest;
const PACKAGES: readonly Package[] = [
  {
    name: 'ingest-gateway',
    description: 'An events ingestion gateway: mutual TLS in, a Redis Stream behind, one warehouse row for every 202.',
    programs: Object.keys(manifest.bin).filter((name) => name !== 'toollint'),
    library: 'lib/send/send-events.ts',
    documents: { 'README.md': 'README.md', openapi: 'openapi', deploy: 'deploy' },
  },
  {
    name: 'toollint',
    description: 'Produces, checks, compares, gates and converts code-analysis reports.',
    programs: ['toollint'],
    library: 'lib/toollint/toollint.ts',
    documents: {
      'lib/toollint/README.md': 'README.md',
      'openapi/code-analysis-report.schema.json': 'openapi/code-analysis-report.schema.json',
    },
  },
];
/** Parts of the documents that belong to the other package, or are tests. */
const LEFT_OUT = /code-analysis-report|\.test\.yml$/;

/** The packages share most declarations of node and of dependencies: each file is parsed once. */
const parsed = new Map<string, ts.SourceFile | undefined>();

rmSync(target, { recursive: true, force: true });
for (const one of PACKAGES) {
  const stage = join(target, one.name);
  const sources = compile(one, stage);
  copyBeside(one, sources, stage);
  writeManifest(one, sources, stage);
  const sbom = billOfMaterials(stage);
  writeFileSync(join(target, `${one.name}-${manifest.version}.cdx.json`), sbom);
  npm(stage, ['pack', '--pack-destination', target]);
  rmSync(stage, { recursive: true });
  process.stdout.write(`${relative(process.cwd(), join(target, `${one.name}-${manifest.version}.tgz`))}\n`);
}

/** Compiles what the package's entries reach, and gives the paths of these files, from the repository's root. */
function compile(one: Package, stage: string): readonly string[] {
  const entries = one.programs.map((name) => `bin/${name}.ts`);
  if (one.library !== undefined) entries.push(one.library);
  // A worker's file is named by a URL, which is no import.
  if (one.programs.includes('ingest-gateway')) entries.push('lib/sqlite/worker.ts');
  const config = ts.readConfigFile(join(root, 'tsconfig.json'), (path) => ts.sys.readFile(path));
  const { options } = ts.parseJsonConfigFileContent(config.config, ts.sys, root);
  const emitting: ts.CompilerOptions = {
    ...options,
    noEmit: false,
    allowImportingTsExtensions: false,
    rewriteRelativeImportExtensions: true,
    declaration: true,
    sourceMap: true,
    inlineSources: true,
    rootDir: root,
    outDir: stage,
  };
  const host = ts.createCompilerHost(emitting);
  const parse = host.getSourceFile.bind(host);
  host.getSourceFile = (path, ...how) => {
    if (!parsed.has(path)) parsed.set(path, parse(path, ...how));
    return parsed.get(path);
  };
  const program = ts.createProgram(
    entries.map((path) => join(root, path)),
    emitting,
    host,
  );
  // The type check is a target of its own; here counts only what cannot be compiled or declared.
  const faults = [...program.getSyntacticDiagnostics(), ...program.emit().diagnostics];
  if (faults.length > 0)
    throw new Error(
      ts.formatDiagnostics(faults, {
        ...ts.sys,
        getCanonicalFileName: (n) => n,
        getNewLine: () => '\n',
        getCurrentDirectory: () => root,
      }),
    );
  return program
    .getSourceFiles()
    .filter(({ fileName, isDeclarationFile }) => !isDeclarationFile && fileName.startsWith(`${root}/`))
    .map(({ fileName }) => relative(root, fileName))
    .filter((path) => !path.startsWith('node_modules/'));
}

/** Launchers, Lua files and documents. */
function copyBeside(one: Package, sources: readonly string[], stage: string): void {
  for (const name of one.programs) {
    const launcher = readFileSync(join(root, 'bin', name), 'utf8').replaceAll(`${name}.ts`, `${name}.js`);
    writeFileSync(join(stage, 'bin', name), launcher, { mode: 0o755 });
  }
  cpSync(join(root, 'bin/installed-node'), join(stage, 'bin/node'));
  for (const folder of new Set(sources.map((path) => dirname(path)))) {
    for (const file of readdirSync(join(root, folder)).filter((name) => name.endsWith('.lua')))
      cpSync(join(root, folder, file), join(stage, folder, file));
  }
  cpSync(join(root, 'LICENSE'), join(stage, 'LICENSE'));
  for (const [from, to] of Object.entries(one.documents)) {
    mkdirSync(dirname(join(stage, to)), { recursive: true });
    const filter = (path: string): boolean =>
      one.documents[relative(root, path)] !== undefined || !LEFT_OUT.test(basename(path));
    cpSync(join(root, from), join(stage, to), { recursive: true, filter });
  }
}

function writeManifest(one: Package, sources: readonly string[], stage: string): void {
  // A package of types alone (`sarif`) is declared by the name that it has on the registry.
  const declared = (name: string): string =>
    manifest.dependencies[name] === undefined && manifest.devDependencies[`@types/${name}`] !== undefined
      ? `@types/${name}`
      : name;
  const imported = new Set(sources.flatMap((path) => packagesOf(join(root, path))).map(declared));
  const chosen = (from: Readonly<Record<string, string>>): Record<string, string> =>
    Object.fromEntries(Object.entries(from).filter(([name]) => imported.has(name)));
  const types = Object.entries(manifest.devDependencies).filter(([name]) => name.startsWith('@types/'));
  const dependencies = { ...chosen(manifest.dependencies), ...chosen(Object.fromEntries(types)) };
  const peerDependencies = chosen(manifest.peerDependencies);
  const missing = [...imported].filter(
    (name) => dependencies[name] === undefined && peerDependencies[name] === undefined,
  );
  if (missing.length > 0)
    throw new Error(`${one.name} imports packages that package.json does not declare: ${missing.join(', ')}`);
  const entry = one.library?.replace(/\.ts$/, '');
  const text = {
    name: one.name,
    version: manifest.version,
    description: one.description,
    license: manifest.license,
    type: 'module',
    engines: manifest.engines,
    bin: Object.fromEntries(one.programs.map((name) => [name, `bin/${name}`])),
    ...(entry === undefined ? {} : { exports: { '.': { types: `./${entry}.d.ts`, default: `./${entry}.js` } } }),
    dependencies,
    ...(Object.keys(peerDependencies).length === 0
      ? {}
      : { peerDependencies, peerDependenciesMeta: manifest.peerDependenciesMeta }),
  };
  writeFileSync(join(stage, 'package.json'), `${JSON.stringify(text, undefined, 2)}\n`);
}

/** The packages that a file imports, types too. */
function packagesOf(path: string): readonly string[] {
  return ts
    .preProcessFile(readFileSync(path, 'utf8'))
    .importedFiles.map(({ fileName }) => fileName)
    .filter((name) => !/^(\.|node:)/.test(name))
    .map((name) => name.split('/', name.startsWith('@') ? 2 : 1).join('/'));
}

/**
 * With the lock file's versions: it is put beside a manifest of the package, and npm leaves in it what this package
 * needs. The manifest is without peers: they are the user's, and npm counts a dependency that is another one's peer
 * among those it omits.
 */
function billOfMaterials(stage: string): string {
  const folder = join(target, 'sbom');
  mkdirSync(folder, { recursive: true });
  const {
    peerDependencies: _,
    peerDependenciesMeta: __,
    ...rest
  } = JSON.parse(readFileSync(join(stage, 'package.json'), 'utf8')) as Record<string, unknown>;
  writeFileSync(join(folder, 'package.json'), JSON.stringify(rest));
  cpSync(join(root, 'package-lock.json'), join(folder, 'package-lock.json'));
  npm(folder, ['install', '--package-lock-only', '--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund']);
  const sbom = npm(folder, ['sbom', '--sbom-format=cyclonedx', '--package-lock-only']);
  rmSync(folder, { recursive: true });
  return sbom;
}

function npm(folder: string, args: readonly string[]): string {
  return execFileSync('npm', [...args, '--loglevel=error'], {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}
