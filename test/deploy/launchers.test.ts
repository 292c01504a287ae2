// The scripts that find and install what others need. Old versions of programs are scripts that print a version, and
// npm is a script that prints its arguments, because an installation takes minutes.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { temporaryFolder } from '../support/scope.ts';

const BIN = new URL('../../bin/', import.meta.url).pathname;

/** Writes programs that print these texts, and returns their folder. */
function programs(printing: Readonly<Record<string, string>>): string {
  const folder = temporaryFolder();
  for (const [name, text] of Object.entries(printing))
    writeFileSync(join(folder, name), `#!/bin/sh\necho '${text}'\n`, { mode: 0o755 });
  return folder;
}

function run(script: string, path: string, ...args: readonly string[]) {
  const env = { ...process.env, INGEST_TEST_POSTGRES_URI: '', PATH: path };
  const { status, stdout, stderr } = spawnSync(script, args, { env, encoding: 'utf8' });
  return { status, text: (stdout + stderr).trim() };
}

describe('ensure-redis and ensure-postgres', () => {
  it('pass over servers that are too old', () => {
    for (const [redis, wanted] of [
      ['Redis server v=6.2.14 sha=0', 'valkey-server'],
      ['Redis server v=7.0.0 sha=0', 'redis-server'],
      ['Redis server v=10.0.0 sha=0', 'redis-server'],
      ['Valkey server v=7.2.5 sha=0', 'valkey-server'],
    ] as const) {
      const folder = programs({ 'redis-server': redis, 'valkey-server': 'Valkey server v=8.0.0 sha=0' });
      const found = run(join(BIN, 'ensure-redis'), `${folder}:${process.env['PATH']}`);
      assert.deepEqual(found, { status: 0, text: join(folder, wanted) }, redis);
    }
  });

  it('pass over a PostgreSQL that is too old, or lacks the programs that make a server', () => {
    for (const [version, others, isFound] of [
      ['14.12', ['initdb', 'psql'], false],
      ['15.0', ['initdb', 'psql'], true],
      ['16.3', ['initdb'], false],
      ['16.3', ['psql'], false],
    ] as const) {
      const postgres = `postgres (PostgreSQL) ${version} (Debian)`;
      const folder = programs({ postgres, ...Object.fromEntries(others.map((name) => [name, ''])) });
      const { status, text } = run(join(BIN, 'ensure-postgres'), `${folder}:${process.env['PATH']}`);
      assert.deepEqual([status, text === folder], [0, isFound], `${version} ${others.join()}`);
    }
  });
});

describe('the node of an installed package', () => {
  it('is that on PATH if it is new enough', () => {
    const root = temporaryFolder();
    for (const [needs, version, isUsed] of [
      ['26', 'v26.0.0', true],
      ['26', 'v25.9.1', false],
      ['26', 'v100.0.0', true],
      ['26.3', 'v26.2.9', false],
      ['26.3', 'v26.10.0', true],
      ['26.3', 'v27.0.0', true],
      ['26', 'unknown', false],
    ] as const) {
      const script = join(root, `node-${needs}`);
      spawnSync('sh', [
        '-c',
        `sed 's/^needs=.*/needs=${needs}/' '${BIN}installed-node' >'${script}'; chmod +x '${script}'`,
      ]);
      const { status, text } = run(script, `${programs({ node: version })}:/bin`);
      assert.equal(status, isUsed ? 0 : 2, `${needs} ${version}`);
      assert.equal(text, isUsed ? version : `node ${needs} or newer must be on PATH; found: ${version}`);
    }
  });
});

describe('bin/node', () => {
  it('runs the node on PATH if the packages have none, and exits with 2 without packages', () => {
    const root = temporaryFolder();
    const script = join(root, 'bin/node');
    mkdirSync(dirname(script));
    cpSync(join(BIN, 'node'), script);
    const path = temporaryFolder();
    symlinkSync(process.execPath, join(path, 'node'));
    const version = (): ReturnType<typeof run> => run(script, `${path}:/bin:/usr/bin`, '--version');
    assert.match(version().text, /run 'make setup' in /);
    assert.equal(version().status, 2);
    mkdirSync(join(root, 'node_modules'));
    assert.deepEqual(version(), { status: 0, text: process.version });
  });
});

describe('install-packages', () => {
  it('installs as little as is needed, keeps what a running gateway uses, and reports a failure as one', () => {
    const root = temporaryFolder();
    const [script, path] = [join(root, 'bin/install-packages'), temporaryFolder()];
    const [runtime, all] = [join(root, 'node_modules/.runtime'), join(root, 'node_modules/.package-lock.json')];
    for (const folder of ['bin', 'node_modules']) mkdirSync(join(root, folder));
    cpSync(join(BIN, 'install-packages'), script);
    const install = (what: string, code = 0) => {
      const npm = `#!/bin/sh\necho "$1 $2 $3" >'${path}/arguments'\nexit ${code}\n`;
      writeFileSync(join(path, 'npm'), npm, { mode: 0o755 });
      const { status } = run(script, `${path}:${process.env['PATH']}`, what);
      const isThere = [runtime, all].map((file) => existsSync(file));
      return [status, readFileSync(join(path, 'arguments'), 'utf8').split(' --ignore')[0]?.trim(), ...isThere];
    };
    assert.deepEqual(install('runtime', 1), [1, 'ci --omit=dev --omit=peer', false, false]);
    assert.deepEqual(install('runtime'), [0, 'ci --omit=dev --omit=peer', true, false]);
    assert.deepEqual(install('all', 1), [1, 'install --no-save', true, false]);
    assert.deepEqual(install('all'), [0, 'install --no-save', true, true]);
    assert.deepEqual(install('runtime'), [0, 'ci', true, true]);
  });
});

describe('ensure-command', () => {
  it('prints the path of a command, or exits with 1 and names the package if it cannot install that', () => {
    const path = temporaryFolder();
    for (const name of ['sh', 'dirname', 'readlink', 'id']) symlinkSync(join('/bin', name), join(path, name));
    const ensure = join(BIN, 'ensure-command');
    assert.deepEqual(run(ensure, path, 'id', 'coreutils'), { status: 0, text: join(path, 'id') });
    const { status, text } = run(ensure, path, 'no-such-command', 'its-package');
    assert.equal(status, 1);
    assert.match(text, /^no-such-command was not found: install it .*apt-get install its-package/);
  });
});
