import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { before, describe, it } from 'node:test';
import { settingsOf } from '../../lib/process/settings.ts';
import { ran } from '../deploy/deploy-files.ts';
import { tool } from '../support/tool.ts';
import { TestProcess } from '../support/gateway.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { Installation, makePackages, NODE_ON_PATH, ROOT, ROOT_MANIFEST, type Manifest } from './installation.ts';

const INSTALLED_BYTES_MAX = 45 * 1024 * 1024;
const PERMISSIVE = new Set(['0BSD', 'Apache-2.0', 'BlueOak-1.0.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT']);

interface Bill {
  readonly components: readonly {
    readonly name: string;
    readonly version: string;
    readonly licenses?: readonly { readonly license?: { readonly id?: string }; readonly expression?: string }[];
  }[];
}

let packages: string;
let gateway: Installation;
let toollint: Installation;

before(() => {
  packages = makePackages();
  gateway = new Installation(packages, 'ingest-gateway');
  toollint = new Installation(packages, 'toollint');
});

const read = (...path: readonly string[]): string => fs.readFileSync(join(...path), 'utf8');
const manifestOf = ({ root }: Installation) => JSON.parse(read(root, 'package.json')) as Manifest;

type Env = Readonly<Record<string, string>>;

const run = (installation: Installation, program: string, args: readonly string[], env: Env = NODE_ON_PATH) =>
  spawnSync(installation.program(program), args, {
    cwd: installation.folder,
    env: { ...process.env, ...env },
    encoding: 'utf8',
  });

/** Returns the keys of a file of settings in which all are comments. */
const keysIn = (text: string): string[] => [...text.matchAll(/^#(\w+)=/gm)].map(([, key = '']) => key);

/** Scripts of the status page, which run in browsers as they are. */
const PAGE_SCRIPT = /^lib\/telemetry\/status-(figures|rules|view)\.js$/;

describe('what is installed', () => {
  it('is JavaScript with declarations and source maps, without sources, tests, benchmarks or CI', () => {
    for (const { files, name } of [gateway, toollint]) {
      const known = /^(package\.json|LICENSE|README\.md|(bin|lib|openapi|deploy)\/.*)$/;
      for (const path of files) assert.match(path, known, name);
      const sources = files.filter((path) => /(?<!\.d)\.ts$|\.test\./.test(path));
      assert.deepEqual(sources, [], name);
      const scripts = files.filter((path) => path.endsWith('.js') && !PAGE_SCRIPT.test(path));
      const modules = scripts.map((path) => path.slice(0, -'.js'.length));
      assert.ok(modules.length > 20, name);
      for (const path of modules) assert.ok(files.includes(`${path}.d.ts`) && files.includes(`${path}.js.map`), path);
    }
  });

  it('needs at most 45 MB with dependencies', () => {
    for (const installation of [gateway, toollint])
      assert.ok(installation.bytes <= INSTALLED_BYTES_MAX, `${installation.name}: ${installation.bytes}`);
  });

  it('has every module that one of its modules names', () => {
    for (const installation of [gateway, toollint]) {
      // The worker can be imported only in a worker thread. The programs below run both excluded modules.
      const modules = installation.files.filter(
        (path) => /^lib\/.*\.js$/.test(path) && !/\/(worker|eslint-engine)\.js$/.test(path) && !PAGE_SCRIPT.test(path),
      );
      const script = modules.map((path) => `await import(${JSON.stringify(join(installation.root, path))});`).join('');
      const args = ['--input-type=module', '--eval', script];
      const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
      assert.equal(status, 0, stderr);
    }
  });

  it('states its bill of materials, with the tested versions and permissive licences only', () => {
    for (const installation of [gateway, toollint]) {
      const { dependencies, version } = manifestOf(installation);
      const { components } = JSON.parse(read(packages, `${installation.name}-${version}.cdx.json`)) as Bill;
      const tested = { ...ROOT_MANIFEST.devDependencies, ...ROOT_MANIFEST.dependencies };
      for (const dependency of Object.keys(dependencies))
        assert.equal(components.find((one) => one.name === dependency)?.version, tested[dependency], dependency);
      for (const { name: component, licenses = [] } of components) {
        const ids = licenses.map(({ license, expression }) => license?.id ?? expression ?? 'none');
        assert.ok(ids.length > 0 && ids.every((id) => PERMISSIVE.has(id)), `${component}: ${ids.join(', ')}`);
      }
    }
  });
});

describe('an installed program', () => {
  const programs = (): [Installation, string][] =>
    Object.keys(ROOT_MANIFEST.bin).map((name) => [name === 'toollint' ? toollint : gateway, name]);

  it('answers --version and --help', () => {
    for (const [installation, name] of programs()) {
      const version = run(installation, name, ['--version']);
      assert.equal(version.status, 0, version.stderr);
      assert.match(version.stdout, /^(\S+) (\S+) \([0-9a-f]{12}\)\n$/);
      assert.ok(version.stdout.startsWith(`${name} ${manifestOf(installation).version} (`));
      const help = run(installation, name, ['--help']);
      assert.equal(help.status, 0, help.stderr);
      assert.match(help.stdout, new RegExp(name));
    }
  });

  it('has manifests beside it that name the image of its own version', () => {
    const tag = manifestOf(gateway).version.replaceAll('+', '-');
    const named = gateway.files
      .filter((path) => /^deploy\/.*(\.yaml|Containerfile)$/.test(path))
      .flatMap((path) =>
        [...read(gateway.root, path).matchAll(/(?:ingest-gateway:|newTag: )(\S+)$/gm)].map(([, one]) => one),
      );
    assert.ok(named.length > 5);
    for (const one of named) assert.equal(one, tag);
  });
});

async function landEvents(program: (name: string) => string, installed: Env): Promise<void> {
  const redis = await TestRedis.start();
  const folder = temporaryFolder();
  const env = {
    ...installed,
    INGEST_QUEUE_URI: redis.uri,
    INGEST_WAREHOUSE_URI: `sqlite:${join(folder, 'warehouse.db')}`,
    INGEST_STATE_DIR: folder,
  };
  const start = (name: string, more: Env): TestProcess =>
    new TestProcess(program(name), [], { ...env, ...more }, { cwd: folder });
  const consumer = start('ingest-consumer', { INGEST_CONSUMER_ADDR: '127.0.0.1:0' });
  const server = start('ingest-gateway', { INGEST_GATEWAY_ADDR: '127.0.0.1:0' });
  const url = /https:\/\/[\d.:]+/.exec(await server.line(/listening on https/))?.[0] ?? '';
  const metrics = /http:\/\/[\d.:]+/.exec(await consumer.line(/listening on http/))?.[0] ?? '';

  const events = Array.from({ length: 50 }, (_, at) => `{"id":"e-${at}","type":"test.event"}\n`).join('');
  const sender = new TestProcess(program('ingest-send'), ['--url', url], env, { cwd: folder, input: events });
  assert.equal((await sender.exited()).code, 0, sender.output);
  await eventually('all have landed', async () =>
    /^ingest_landed_total 50$/m.test(await (await fetch(`${metrics}/metrics`)).text()),
  );
  for (const one of [server, consumer]) {
    one.signal('SIGTERM');
    assert.equal((await one.exited()).code, 0, one.output);
  }
}

describe('the installed gateway, consumer and sender', () => {
  it('land events', () => landEvents((name) => gateway.program(name), NODE_ON_PATH));
});

describe('an installation that brings its own runtime', () => {
  const NO_NODE = { PATH: '/usr/bin:/bin' };
  let archives: readonly string[];

  before(() => {
    const made = execFileSync(join(ROOT, 'bin/make-archives'), [packages], { encoding: 'utf8', stdio: 'pipe' });
    archives = made.trim().split('\n');
  });

  it('is an archive whose programs land events wherever it is unpacked', async () => {
    const folder = temporaryFolder();
    execFileSync('tar', ['-xzf', archives[0] ?? '', '-C', folder]);
    const [top = ''] = fs.readdirSync(folder);
    assert.match(top, /^ingest-gateway-\d[\w.+]+-linux-(amd64|arm64)$/);
    await landEvents((name) => join(folder, top, 'bin', name), NO_NODE);
  });

  it("is a Debian package that installs into an empty root, passes systemd's checks, and is removed completely", async () => {
    const root = temporaryFolder();
    for (const path of ['var/lib/dpkg/info', 'var/lib/dpkg/updates', 'etc/systemd/system'])
      fs.mkdirSync(join(root, path), { recursive: true });
    fs.writeFileSync(join(root, 'var/lib/dpkg/status'), '');
    const analyze = tool('systemd-analyze', 'systemd');
    // systemd-analyze looks for the files that the units name below this root.
    fs.cpSync('/usr/bin/kill', join(root, 'usr/bin/kill'));
    const links = { recursive: true, verbatimSymlinks: true };
    fs.cpSync('/usr/lib/systemd/system', join(root, 'usr/lib/systemd/system'), links);
    const dpkg = (...args: readonly string[]): void => {
      const at = [`--root=${root}`, `--log=${root}/var/lib/dpkg/log`];
      const { status, text } = ran('dpkg', ['--force-depends', '--force-script-chrootless', ...at, ...args]);
      assert.equal(status, 0, text);
    };
    const files = (): readonly string[] =>
      fs.readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((path) => !path.startsWith('var/lib/dpkg'));

    const before = files();
    dpkg('--install', archives[1] ?? '');
    for (const users of ['etc/passwd', 'etc/group']) assert.match(read(root, users), /^ingest:/m);
    for (const program of ['gateway', 'consumer'] as const) {
      const path = join(root, `etc/ingest/${program}.env`);
      assert.equal(fs.statSync(path).mode & 0o777, 0o600);
      const known = settingsOf(program).map(([key]) => String(key));
      assert.deepEqual(keysIn(read(root, `usr/share/doc/ingest-gateway/examples/${program}.env`)), known);
      const own = keysIn(read(path));
      assert.ok(own.includes('INGEST_QUEUE_URI') && own.every((key) => known.includes(key)), own.join());
    }
    const units = ['ingest-gateway@9470', 'ingest-consumer@9464'].map((name) => `${name}.service`);
    assert.deepEqual(fs.readdirSync(join(root, 'etc/systemd/system')), [], 'nothing is enabled');
    for (const verb of ['enable', 'disable'])
      for (const unit of units) assert.equal(ran('systemctl', [`--root=${root}`, verb, unit]).status, 0, unit);
    assert.deepEqual(ran(analyze, ['verify', '--man=no', `--root=${root}`, ...units]).text.match(/.*ingest-.*/g), null);
    await landEvents((name) => join(root, 'usr/bin', name), NO_NODE);

    const warehouse = join(root, 'var/lib/private/ingest/warehouse.db');
    fs.mkdirSync(dirname(warehouse), { recursive: true });
    fs.writeFileSync(warehouse, 'rows');
    dpkg('--purge', 'ingest-gateway');
    assert.equal(read(warehouse), 'rows', 'a purge keeps the data');
    fs.rmSync(join(root, 'var/lib/private'), { recursive: true });
    const databases = /^etc\/(\.pwd\.lock|g?shadow-?|passwd-?|group-?)$/;
    for (const path of files()) assert.ok(before.includes(path) || databases.test(path), path);
    for (const users of ['etc/passwd', 'etc/group']) assert.doesNotMatch(read(root, users), /ingest/);
  });
});

describe('the installed toollint', () => {
  it('is a module that runs on every supported node, and reports in one line which node it needs', () => {
    const { engines, peerDependencies, dependencies } = manifestOf(toollint);
    assert.deepEqual([engines, peerDependencies], [{ node: '>=22.15' }, undefined]);
    for (const range of Object.values(dependencies)) assert.match(range, /^\^/);
    assert.ok(!Object.keys(dependencies).some((name) => name.startsWith('@types/')));
    const versions = (node: string) =>
      `data:text/javascript,Object.defineProperty(process,"versions",{value:{...process.versions,node:"${node}"}})`;
    for (const [node, status] of [
      ['20.19.0', 2],
      ['22.14.9', 2],
      ['22.15.0', 0],
      ['24.0.0', 0],
    ] as const) {
      const program = join(toollint.root, 'bin/toollint.js');
      const args = ['--import', versions(node), program, '--version'];
      const ended = spawnSync(process.execPath, args, { encoding: 'utf8' });
      const sentence = `toollint: Node.js 22.15 or newer is needed, this is ${node}\n`;
      assert.deepEqual([ended.status, ended.stderr], [status, status === 2 ? sentence : '']);
    }
  });

  it('needs the linter only to scan, and then reports that it is missing', () => {
    fs.writeFileSync(join(toollint.folder, 'sample.js'), 'if (1) { let unused; }\n');
    const config = `export default [{ files: ['**/*.js'], rules: { 'no-unused-vars': 2 } }];\n`;
    fs.writeFileSync(join(toollint.folder, 'eslint.config.mjs'), config);
    assert.equal(run(toollint, 'toollint', ['schema']).status, 0);
    const { status, stderr } = run(toollint, 'toollint', ['scan', 'sample.js']);
    assert.equal(status, 2, stderr);
    assert.match(stderr, /eslint/);
  });

  it('scans, writes nothing into its folder, and type-checks as a library', () => {
    const wanted = ['eslint', 'typescript', '@types/node'];
    toollint.add(...wanted.map((name) => `${name}@${ROOT_MANIFEST.devDependencies[name]}`));
    const before = toollint.files;
    const { status, stdout, stderr } = run(toollint, 'toollint', ['scan', 'sample.js']);
    assert.deepEqual(toollint.files, before);
    assert.equal(status, 1, stderr);
    const report = JSON.parse(stdout) as { execution: { status: string }; findings: { ruleId: string }[] };
    assert.equal(report.execution.status, 'complete');
    assert.deepEqual(
      report.findings.map(({ ruleId }) => ruleId),
      ['no-unused-vars'],
    );

    const use = `import { chosenGate, compare, convert, schema, validate, memorySource, type Report } from 'toollint';
const { problems } = validate(memorySource('{}', 'empty.json'));
// @ts-expect-error: a number is not a source, so the declarations are there and are read.
export const wrong = (): unknown => validate(1);
const first: Report['schemaVersion'] = 1;
if (problems.length === 0 || schema === undefined) throw new Error('an empty document is none');
console.log(typeof compare, typeof convert, typeof chosenGate, first);
`;
    fs.writeFileSync(join(toollint.folder, 'use.ts'), use);
    const checks = { strict: true, noEmit: true, skipLibCheck: false };
    const options = { module: 'nodenext', target: 'es2024', types: ['node'], ...checks };
    const files = [join(toollint.folder, 'use.ts')];
    fs.writeFileSync(join(toollint.folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, files }));
    const checked = run(toollint, 'tsc', ['--project', 'tsconfig.json']);
    assert.equal(checked.status, 0, checked.stdout);
    const used = spawnSync(process.execPath, ['use.ts'], { cwd: toollint.folder, encoding: 'utf8' });
    assert.deepEqual([used.stdout, used.status], ['function function function 1\n', 0], used.stderr);
  });
});
