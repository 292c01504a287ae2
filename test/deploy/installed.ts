// Types the commands of install.md on an empty Debian that systemd has booted in a container, as root, and prints the
// time to the first landed event. Then it follows the upgrade chapter from the version that landed last and back, and
// tries a SQLite warehouse, a removal and a purge.
//
// `make installed-test` runs it. It needs root, debootstrap, systemd-nspawn, and Debian's mirror.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { cloneOfBase, makePackages } from '../package/installation.ts';
import { TestProcess } from '../support/gateway.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { deployFile } from './deploy-files.ts';
import { tool } from '../support/tool.ts';

const ROOT = new URL('../../', import.meta.url).pathname;
const MIRROR = 'http://deb.debian.org/debian';
const PATIENCE_MS = 300_000;

const blocksOf = (page: string): readonly string[] =>
  [...deployFile(page).matchAll(/^ *```\w*\n([^]*?)^ *```$/gm)].map(([, block = '']) => block.replaceAll(/^ +/gm, ''));

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

/** Builds the Debian packages of this version and, in `older/`, of the version that landed last. */
function debianPackages(): string {
  const folder = temporaryFolder('installed-packages-', '/var/tmp');
  for (const [name, root] of [
    ['.', ROOT],
    ['older', cloneOfBase()],
  ] as const) {
    cpSync(makePackages(root), join(folder, name), { recursive: true });
    execFileSync(join(root, 'bin/make-archives'), [join(folder, name)], { stdio: 'ignore' });
  }
  return folder;
}

/** Sends events with the trial certificates in a folder until it is stopped. */
function startLoad(certificates: string) {
  const runFile = join(temporaryFolder(), 'run');
  writeFileSync(runFile, '');
  const event = `{\\"id\\":\\"load-$at\\",\\"type\\":\\"load\\"}`;
  const events = `at=0; while [ -e ${runFile} ]; do echo "${event}"; at=$((at+1)); sleep 0.02; done`;
  const [ca, cert, key] = ['client-ca.pem', 'shop.pem', 'shop-key.pem'].map((name) => join(certificates, name));
  const send = `${ROOT}bin/ingest-send --url https://localhost:8443 --cert ${cert} --key ${key} --ca ${ca} --tries 1000 --json`;
  const sender = new TestProcess('sh', ['-c', `{ ${events}; } | ${send} --refused ${runFile}.refused -`], {});
  return {
    /** Resolves with the number of events, all of which were accepted. */
    stop: async (): Promise<number> => {
      rmSync(runFile);
      const { code } = await sender.exited(60_000);
      assert.equal(code, 0, sender.output);
      return (JSON.parse(sender.lines.find((line) => line.startsWith('{')) ?? '{}') as { accepted: number }).accepted;
    },
  };
}

describe('the package on an empty Debian', () => {
  let machine: Machine;
  const blocks = blocksOf('install.md').map((block) => block.replaceAll(/(?<=[>:'])PASSWORD/g, 'secret'));
  const block = (begins: string): string =>
    blocks.find((one) => one.startsWith(begins)) ?? assert.fail(`install.md has no block that begins with ${begins}`);
  const enabled = 'systemctl restart ingest-consumer@9464 ingest-gateway@9470';
  const ready = async (): Promise<void> => {
    for (const port of [9464, 9470])
      await machine.prints(`curl -s http://127.0.0.1:${port}/health/ready`, /"status":"ready"/);
  };

  /** Installs the TLS files and the settings, starts the units, and returns the probes of the page. */
  const configure = (): string => {
    machine.ok(block('install -d -g ingest'), '', '/root');
    const [gateway = '', consumer = ''] = blocks.filter((one) => one.startsWith('INGEST_QUEUE_URI='));
    writeFileSync(machine.path('etc/ingest/gateway.env'), gateway, { flag: 'a' });
    writeFileSync(machine.path('etc/ingest/consumer.env'), consumer, { flag: 'a' });
    const [enable = '', probes = ''] = block('systemctl enable').split('\n');
    machine.ok(enable);
    return probes;
  };

  before(
    async () => {
      machine = await boot(debianPackages());
    },
    { timeout: 2 * PATIENCE_MS },
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
    const probes = configure();
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
    const timer = block('install -m 600').replace(/^ln -s.*$/m, '');
    const shown = machine.ok(`${asAdmin}\n${timer}\ncat /var/lib/ingest-metrics/ingest_reconcile.prom`);
    assert.match(shown, /^ingest_reconcile_events\{place="missing"\} 0$/m);
    for (const unit of ['ingest-gateway@9470', 'ingest-consumer@9464'])
      assert.match(machine.ok(`ls /var/cache/ingest/${unit.replace('@', '-')}`), /./, 'its own compiled code');
  });

  it('is upgraded and taken back by the chapter of the runbook, under load', { timeout: 2 * PATIENCE_MS }, async () => {
    const page = blocksOf('RUNBOOK.md');
    const first = page.findIndex((one) => one.startsWith('dpkg-deb --extract'));
    const [unpack = '', rights = '', check = '', upgrade = ''] = page.slice(first);
    const [install = '', restart = '', version = ''] = upgrade.split('\n');
    const asOperator = "alias redis-cli='redis-cli --user ingest-operator --pass secret --no-auth-warning'\n";
    const changeTo = async (installing: string, ...units: readonly string[]): Promise<void> => {
      machine.ok(`DEBIAN_FRONTEND=noninteractive ${installing} </dev/null`);
      const [number = ''] = machine.ok("dpkg-query -W -f '${Version}' ingest-gateway").split('\n');
      for (const unit of units) {
        machine.ok(restart.replace('ingest-consumer@9464', unit));
        await machine.prints(
          version.replace('9464', unit.split('@')[1] ?? ''),
          new RegExp(`version="${number.replaceAll(/[.+]/g, '\\$&')}"`),
        );
        await ready();
      }
    };
    const goBack = install.replace('install ./', 'install --allow-downgrades ./older/');
    const [consumer, gateway] = ['ingest-consumer@9464', 'ingest-gateway@9470'] as const;

    await changeTo(goBack, gateway, consumer);
    const installed = readFileSync(machine.path('usr/lib/ingest-gateway/deploy/install.md'), 'utf8');
    const users = installed.match(/^ACL SETUSER ingest-[cg].*$/gm) ?? [];
    machine.ok(`${asOperator}redis-cli`, users.join('\n').replaceAll(' on >PASSWORD', ' reset on >secret'));
    machine.ok(enabled);
    await ready();
    const settings = machine.ok('cat /etc/ingest/gateway.env');
    const load = startLoad(machine.path('root'));

    machine.ok(unpack);
    const isAllowed = users.every((user) => deployFile('install.md').includes(user));
    const unchanged = machine.sh(check);
    assert.equal(unchanged.status, isAllowed ? 0 : 4, unchanged.text);
    assert.match(machine.ok(asOperator + rights), /^(OK\n){5}$/);
    assert.equal(machine.ok(check).match(/the configuration is good/g)?.length, 2);
    await changeTo(install, consumer, gateway);
    assert.equal(machine.ok('cat /etc/ingest/gateway.env'), settings);
    assert.equal(machine.ok("dpkg-query -W -f '${Conffiles}' ingest-gateway"), '');
    await changeTo(goBack, gateway, consumer);
    await changeTo(install, consumer, gateway);
    const accepted = await load.stop();
    assert.ok(accepted > 100, String(accepted));
    const rows = `echo "SELECT count(*) FROM events WHERE type = 'load'" | su postgres -c 'psql -At ingest'`;
    await machine.prints(rows, new RegExp(`^${accepted}$`, 'm'));
  });

  it('reaches Redis and PostgreSQL over TLS by the commands of configure.md', { timeout: PATIENCE_MS }, async () => {
    // The servers have the certificate of the gateway.
    machine.ok(
      `cp client-ca.pem server-ca.pem
install -o redis -g redis -m 640 server.pem server-key.pem server-ca.pem /etc/redis
cat >>/etc/redis/redis.conf <<END
tls-port 6380
tls-auth-clients no
tls-cert-file /etc/redis/server.pem
tls-key-file /etc/redis/server-key.pem
tls-ca-cert-file /etc/redis/server-ca.pem
END
data=$(echo 'SHOW data_directory' | su postgres -c 'psql -At' 2>/dev/null)
install -o postgres -g postgres -m 600 server.pem server-key.pem $data
su postgres -c psql <<END
ALTER SYSTEM SET ssl_cert_file = 'server.pem';
ALTER SYSTEM SET ssl_key_file = 'server-key.pem';
END
systemctl restart redis-server postgresql
cd /etc/ingest
sed -i 's|redis:\\(.*\\)@127.0.0.1:6379|rediss:\\1@localhost:6380|; s|@127.0.0.1/ingest|@localhost/ingest?sslmode=verify-full|' *.env`,
      '',
      '/root',
    );
    const [settings = ''] = blocksOf('configure.md').filter((one) =>
      one.startsWith('install -g ingest -m 640 server-ca.pem'),
    );
    machine.ok(settings, '', '/root');
    machine.ok(enabled);
    await ready();
    const before = machine.ok('cat /var/lib/ingest-metrics/ingest_reconcile.prom');
    machine.ok('systemctl start ingest-reconcile');
    assert.notEqual(machine.ok('cat /var/lib/ingest-metrics/ingest_reconcile.prom'), before);
    const cli = `redis-cli --user ingest-operator --pass secret --tls --cacert /etc/ingest/tls/server-ca.pem -h localhost -p 6380`;
    assert.match(machine.ok(`${cli} CLIENT LIST`), /user=ingest-gateway/);
    const sessions = 'SELECT DISTINCT usename FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl ORDER BY 1';
    assert.match(machine.ok(`echo "${sessions}" | su postgres -c 'psql -At'`), /^ingest_consumer$/m);
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

  it('runs from the archive by the commands of the page', { timeout: PATIENCE_MS }, async () => {
    // The user stays after a purge.
    machine.ok(block('tar -xzf').replace(/^useradd.*$/m, ''));
    assert.equal(machine.ok(configure()).match(/"ready"/g)?.length, 2);
    assert.match(machine.ok('readlink -f /usr/bin/ingest-gateway'), /^\/opt\/ingest-gateway-/);
  });
});
