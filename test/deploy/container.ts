// Builds the Containerfile with buildah on a base image made from this machine's node and npm, and runs the image as
// its user. Chroot isolation works inside another container, but it cannot mount the image read-only.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { TestClient, TestProcess } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { makePackages } from '../package/installation.ts';
import { BUILD } from '../../lib/process/program.ts';
import { ENTRYPOINT } from './deploy-files.ts';
import { tool } from '../support/tool.ts';

const buildah = tool('buildah', 'buildah');
const folder = temporaryFolder('ingest-image-');
const STORE = ['--storage-driver', 'vfs', '--root', join(folder, 'store'), '--runroot', join(folder, 'run')];

const build = (...args: readonly string[]): string =>
  execFileSync(buildah, [...STORE, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();

const CHROOT = ['--isolation', 'chroot'];

function makeBaseImage(): void {
  const root = join(folder, 'base/root');
  const take = (path: string, to = path): void => {
    mkdirSync(dirname(join(root, to)), { recursive: true });
    cpSync(realpathSync(path), join(root, to), { recursive: true });
  };
  const npm = dirname(dirname(realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim())));
  for (const program of [process.execPath, '/bin/sh'])
    for (const [library] of execFileSync('ldd', [program], { encoding: 'utf8' }).matchAll(/\/\S+/g)) take(library);
  take(process.execPath, '/usr/local/bin/node');
  take('/bin/sh');
  take('/usr/bin/env');
  take(npm, '/usr/local/lib/npm');
  symlinkSync('../lib/npm/bin/npm-cli.js', join(root, 'usr/local/bin/npm'));
  mkdirSync(join(root, 'tmp'), { mode: 0o777 });
  const env = 'PATH=/usr/local/bin:/usr/bin:/bin npm_config_cache=/npm-cache npm_config_offline=true';
  writeFileSync(join(folder, 'base/Containerfile'), `FROM scratch\nCOPY root/ /\nENV ${env}\n`);
  build('bud', ...CHROOT, '--tag', 'base', join(folder, 'base'));
}

function makeImage(): void {
  const context = join(folder, 'context');
  cpSync(makePackages(), join(context, 'package'), { recursive: true });
  // npm is offline inside the build, so an installation outside it fills npm's cache first.
  const npmCache = join(folder, 'npm-cache');
  const outside = join(folder, 'outside');
  mkdirSync(outside);
  const tarball = readdirSync(join(context, 'package')).find((name) => /^ingest-gateway-.*\.tgz$/.test(name)) ?? '';
  const quietly = ['--cache', npmCache, '--no-audit', '--no-fund', '--loglevel=error'];
  const stdio = ['ignore', 'ignore', 'inherit'] as const;
  execFileSync('npm', ['install', ...quietly, join(context, 'package', tarball)], { cwd: outside, stdio: [...stdio] });
  // The page types the same command.
  execFileSync('tar', ['-xzf', join(context, 'package', tarball), 'package/deploy'], { cwd: context });
  const bases = ['BUILD', 'RUNTIME'].flatMap((name) => ['--build-arg', `${name}=localhost/base`]);
  const file = ['--tag', 'ingest-gateway', '--file', join(context, 'package/deploy/Containerfile')];
  build('bud', ...CHROOT, '--volume', `${npmCache}:/npm-cache`, ...bases, ...file, context);
}

function run(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  volumes: readonly string[] = [],
): TestProcess {
  const container = build('from', ...CHROOT, 'localhost/ingest-gateway');
  const settings = Object.entries(env).map(([key, value]) => `--env=${key}=${value}`);
  const mounts = volumes.map((volume) => `--volume=${volume}`);
  return new TestProcess(
    buildah,
    [...STORE, 'run', ...CHROOT, ...settings, ...mounts, container, '--', ...ENTRYPOINT, ...args],
    {},
  );
}

const LABEL = 'org.opencontainers.image';
type Labels = Readonly<Record<string, string>>;
type Image = { readonly OCIv1: { readonly config: Readonly<Record<string, unknown>> & { readonly Labels: Labels } } };

describe('the image', () => {
  it('runs as a user that cannot write to it, and lands events', { timeout: 240_000 }, async () => {
    atEnd(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
    makeBaseImage();
    makeImage();
    const { config } = (JSON.parse(build('inspect', '--type', 'image', 'localhost/ingest-gateway')) as Image).OCIv1;
    assert.deepEqual(
      ['User', 'StopSignal', 'Entrypoint', 'Cmd'].map((name) => config[name]),
      ['65532:65532', 'SIGTERM', ENTRYPOINT, ['ingest-gateway.js']],
    );
    const { [`${LABEL}.version`]: version = '', [`${LABEL}.revision`]: revision } = config.Labels;
    assert.equal(revision, BUILD.revision);
    assert.ok(version.startsWith(BUILD.version), version);

    const script = `import { accessSync, constants, readdirSync, statSync } from 'node:fs';
const writable = [];
for (const path of readdirSync('/app', { recursive: true })) { try { accessSync('/app/' + path, constants.W_OK); writable.push(path); } catch {} }
console.log(JSON.stringify([process.getuid(), writable]));`;
    const look = run(['--input-type=module', '--eval', script], {});
    assert.equal((await look.exited()).code, 0, look.output);
    assert.equal(look.lines.at(-1), '[65532,[]]');

    const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
    const data = temporaryFolder();
    execFileSync('chmod', ['-R', 'a+rwX', data, pki.folder]);
    const common = { INGEST_QUEUE_URI: redis.uri, INGEST_WAREHOUSE_URI: 'sqlite:/data/warehouse.db' };
    const consumer = run(['ingest-consumer.js'], { ...common, INGEST_CONSUMER_ADDR: '127.0.0.1:0' }, [`${data}:/data`]);
    const metrics = /http:\/\/[\d.:]+/.exec(await consumer.line(/listening on http/))?.[0] ?? '';
    const tls = {
      INGEST_TLS_CERT: '/tls/server.pem',
      INGEST_TLS_KEY: '/tls/server-key.pem',
      INGEST_TLS_CLIENT_CA: '/tls/ca.pem',
    };
    const gateway = run(
      ['ingest-gateway.js'],
      { ...common, ...tls, INGEST_GATEWAY_ADDR: '127.0.0.1:0', INGEST_ADMIN_ADDR: '127.0.0.1:0' },
      [`${pki.folder}:/tls:ro`, `${data}:/data`],
    );
    const port = Number(/listening on https:\/\/[^"]*:(\d+)/.exec(await gateway.line(/listening on https/))?.[1]);
    const client = new TestClient(port, readFileSync(pki.path('ca.pem'), 'utf8'), await pki.producer('shop'), {});
    assert.equal((await client.post('{"id":"e","type":"test.event"}')).status, 202);
    await eventually('it has landed', async () =>
      /^ingest_landed_total 1$/m.test(await (await fetch(`${metrics}/metrics`)).text()),
    );
    for (const program of [gateway, consumer]) {
      program.signal('SIGTERM');
      await program.exited();
    }
  });
});
