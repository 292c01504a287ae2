// Types the commands of install.md on an empty Debian that systemd has booted in a container, as root, and prints the
// time to the first landed event. Then it tries a SQLite warehouse, an upgrade, a downgrade and a purge.
//
// `make installed-test` runs it. It needs root, debootstrap, systemd-nspawn, and Debian's mirror.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { makePackages } from '../package/installation.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { deployFile, tool } from './deploy-files.ts';

const ROOT = new URL('../../', import.meta.url).pathname;
const MIRROR = 'http://deb.debian.org/debian';
const PATIENCE_MS = 300_000;

const blocksOf = (page: string): readonly string[] =>
  [...deployFile(page).matchAll(/^ *```\w*\n([^]*?)^ *```$/gm)].map(([, block = '']) =>
    block.replaceAll(/(?<=[>:'])PASSWORD/g, 'secret'),
  );

type Machine = Awaited<ReturnType<typeof boot>>;

/** Boots a Debian in a folder, whose first process is systemd. It shares the network of this machine. */
async function boot(packages: string) {
  const pristine = join(ROOT, '.ingest/debian');
  if (!existsSync(join(pristine, 'usr/bin/systemctl'))) {
    const included = '--include=systemd,systemd-sysv,dbus,procps,iproute2';
    execFileSync(tool('debootstrap', 'debootstrap'), ['--variant=minbase', included, 'bookworm', pristine, MIRROR]);
  }
  const root = join(temporaryFolder('installed-', '/var/tmp'), 'root');
  execFileSync('cp', ['-a', pristine, root]);
  writeFileSync(join(root, 'etc/apt/apt.conf.d/90yes'), 'APT::Get::Assume-Yes "true";\n');
  const options = '--quiet --register=no --keep-unit --console=pipe --resolv-conf=copy-host --boot'.split(' ');
  const folders = [`--bind=${packages}:/packages`, `--directory=${root}`];
  const nspawn = spawn(tool('systemd-nspawn', 'systemd-container'), [...options, ...folders], { stdio: 'ignore' });
  const ended = once(nspawn, 'exit');
  let leader = 0;

  function sh(
    script: string,
    input = '',
    cwd = '/packages',
  ): { readonly status: number | null; readonly text: string } {
    const env = ['env', '-i', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'HOME=/root'];
    const shell = ['--target', String(leader), '--all', '--', ...env, 'sh', '-ec', `cd ${cwd}; ${script}`];
    const { status, stdout, stderr } = spawnSync('nsenter', shell, { encoding: 'utf8', input, timeout: PATIENCE_MS });
    return { status, text: stdout + stderr };
  }
  /** Runs a script that must succeed. */
  function ok(script: string, input = '', cwd = '/packages'): string {
    const { status, text } = sh(script, input, cwd);
    assert.equal(status, 0, `${script}\n${text}`);
    return text;
  }
  /** Runs a script until it prints this. People type more slowly than programs start. */
  async function prints(script: string, wanted: RegExp, cwd = '/root'): Promise<void> {
    let text = '';
    const found = (): boolean => wanted.test((text = sh(script, '', cwd).text));
    await eventually(script, found, 60_000).catch(() =>
      assert.fail(`${script}: ${text}\n${sh('journalctl -o cat -n 40').text}`),
    );
  }
  atEnd(async () => {
    sh('systemctl poweroff --force --force');
    await ended;
  });
  await eventually('systemd has booted', () => {
    const ps = ['--no-headers', '-o', 'pid', '--ppid', String(nspawn.pid)];
    leader = Number(spawnSync('ps', ps, { encoding: 'utf8' }).stdout);
    return leader > 0 && /running|degraded/.test(sh('systemctl is-system-running').text);
  });
  return { path: (path: string) => join(root, path), sh, ok, prints };
}

/** Builds the package, and the same one with another version. */
function debianPackages(): { readonly folder: string; readonly older: string } {
  const folder = temporaryFolder('installed-packages-', '/var/tmp');
  cpSync(makePackages(), folder, { recursive: true });
  execFileSync(join(ROOT, 'bin/make-archives'), [folder], { stdio: 'ignore' });
  const [newer = ''] = readdirSync(folder).filter((name) => name.endsWith('.deb'));
  mkdirSync(join(folder, 'older'));
  const tree = join(folder, 'tree');
  execFileSync('dpkg-deb', ['--raw-extract', join(folder, newer), tree]);
  const control = join(tree, 'DEBIAN/control');
  writeFileSync(control, readFileSync(control, 'utf8').replace(/^Version: .*$/m, 'Version: 0.9.0'));
  const older = 'older/ingest-gateway_0.9.0_amd64.deb';
  execFileSync('dpkg-deb', ['-Zgzip', '--build', tree, join(folder, older)], { stdio: 'ignore' });
  execFileSync('rm', ['-r', tree]);
  return { folder, older: `./${older}` };
}

describe('the package on an empty Debian', () => {
  let machine: Machine;
  let older: string;
  const blocks = blocksOf('install.md');
  const block = (begins: string): string =>
    blocks.find((one) => one.trimStart().startsWith(begins)) ??
    assert.fail(`install.md has no block that begins with ${begins}`);
  const enabled = 'systemctl restart ingest-consumer@9464 ingest-gateway@9470';
  const ready = async (): Promise<void> => {
    for (const port of [9464, 9470])
      await machine.prints(`curl -s http://127.0.0.1:${port}/health/ready`, /"status":"ready"/);
  };

  before(
    async () => {
      const packages = debianPackages();
      older = packages.older;
      machine = await boot(packages.folder);
    },
    { timeout: PATIENCE_MS },
  );

  it('lands its first event by the commands of install.md', { timeout: PATIENCE_MS }, async (t) => {
    const startedMs = performance.now();
    machine.ok(block('apt update'));
    writeFileSync(machine.path('etc/redis/redis.conf'), block('aclfile'), { flag: 'a' });
    machine.ok(block('install -o redis').replace(/^redis-cli$/m, ''));
    machine.ok('redis-cli', block('ACL SETUSER'));
    machine.ok('su postgres -c psql', block('CREATE ROLE'));
    const [certificates = ''] = blocksOf('RUNBOOK.md').filter((one) => one.startsWith('openssl req'));
    machine.ok(certificates, '', '/root');
    machine.ok(block('install -d -g ingest'), '', '/root');
    const [gateway = '', consumer = ''] = blocks.filter((one) => one.startsWith('INGEST_QUEUE_URI='));
    writeFileSync(machine.path('etc/ingest/gateway.env'), gateway, { flag: 'a' });
    writeFileSync(machine.path('etc/ingest/consumer.env'), consumer, { flag: 'a' });
    const [enable = '', probes = ''] = block('systemctl enable').split('\n');
    machine.ok(enable);
    assert.equal(machine.ok(probes).match(/"ready"/g)?.length, 2);
    const [send = '', look = ''] = block('curl --cacert').split(/\n(?=curl)/);
    assert.match(machine.ok(send, '', '/root'), /"status":"accepted"/);
    await machine.prints(look, /"status":"landed"/);
    t.diagnostic(
      `the first event landed ${Math.round((performance.now() - startedMs) / 1000)} s after the first command`,
    );
    assert.match(machine.ok(block('su postgres')), /shop\/1/);
    const asAdmin = block('export INGEST_QUEUE_URI');
    assert.match(machine.ok(asAdmin), /replica/);
    const timer = block('install -m 600').replace(/^ln -s.*$/m, 'systemctl start ingest-reconcile');
    const shown = machine.ok(`${asAdmin}\n${timer}\ncat /var/lib/ingest-metrics/ingest_reconcile.prom`);
    assert.match(shown, /^ingest_reconcile_events\{place="missing"\} 0$/m);
    for (const unit of ['ingest-gateway@9470', 'ingest-consumer@9464'])
      assert.match(machine.ok(`ls /var/cache/ingest/${unit.replace('@', '-')}`), /./, 'its own compiled code');
  });

  it('lands events in a SQLite file that the gateway and ingest-admin read', { timeout: PATIENCE_MS }, async () => {
    const uri = /INGEST_WAREHOUSE_URI=(sqlite:[^`]+)`/.exec(deployFile('install.md'))?.[1] ?? '';
    for (const name of ['gateway', 'consumer'])
      machine.ok(`sed -i 's|^INGEST_WAREHOUSE_URI=.*|INGEST_WAREHOUSE_URI=${uri}|' /etc/ingest/${name}.env`);
    machine.ok(enabled);
    await ready();
    const [send = '', look = ''] = block('curl --cacert')
      .replaceAll('shop/1', 'shop/2')
      .replaceAll('shop%2F1', 'shop%2F2')
      .split(/\n(?=curl)/);
    assert.match(machine.ok(send, '', '/root'), /"status":"accepted"/);
    await machine.prints(look, /"status":"landed"/);
    const environment = `INGEST_QUEUE_URI=redis://ingest-admin:secret@127.0.0.1:6379 INGEST_WAREHOUSE_URI=${uri}`;
    assert.match(machine.ok(`runuser -u ingest -- env ${environment} ingest-admin event shop/2`), /landed/);
  });

  it('is upgraded without a question, and keeps the settings', { timeout: PATIENCE_MS }, () => {
    const settings = machine.ok('cat /etc/ingest/gateway.env');
    machine.ok(`apt install --allow-downgrades ${older}`);
    assert.match(machine.ok('dpkg --status ingest-gateway'), /^Version: 0\.9\.0$/m);
    machine.ok('DEBIAN_FRONTEND=noninteractive apt install ./ingest-gateway_*.deb </dev/null');
    assert.equal(machine.ok('cat /etc/ingest/gateway.env'), settings);
    assert.equal(machine.ok("dpkg-query -W -f '${Conffiles}' ingest-gateway"), '');
  });

  it('starts again what ran when it was removed, and nothing else', { timeout: PATIENCE_MS }, async () => {
    machine.ok('systemctl enable ingest-consumer@9465');
    machine.ok('DEBIAN_FRONTEND=noninteractive apt remove ingest-gateway');
    machine.ok('DEBIAN_FRONTEND=noninteractive apt install ./ingest-gateway_*.deb </dev/null');
    await ready();
    assert.match(machine.ok('systemctl is-active ingest-reconcile.timer'), /^active/);
    assert.doesNotMatch(machine.sh('systemctl is-active ingest-consumer@9465').text, /^active/);
  });

  it('is purged with its keys, settings, links and caches, and without the data', { timeout: PATIENCE_MS }, () => {
    machine.ok('DEBIAN_FRONTEND=noninteractive apt purge ingest-gateway');
    const left = machine.sh('ls -d /etc/ingest /var/cache/ingest /etc/systemd/system/*/ingest-* 2>/dev/null').text;
    assert.equal(left, '');
    assert.match(machine.ok('ls /var/lib/ingest'), /warehouse\.db/);
    machine.ok('getent passwd ingest');
  });
});
