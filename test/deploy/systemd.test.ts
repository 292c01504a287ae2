// systemd.long.ts checks the units with systemd's own tools.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { readCommandLine } from '../../lib/admin/command-line.ts';
import { temporaryFolder } from '../support/scope.ts';
import { consumerOf, DEPLOY, deployFile, gatewayOf } from './deploy-files.ts';
import { tool } from '../support/tool.ts';

function unit(name: string): ReadonlyMap<string, readonly string[]> {
  const values = new Map<string, string[]>();
  for (const [, key = '', value = ''] of deployFile(`systemd/${name}`).matchAll(/^(\w+)=(.*)$/gm))
    values.set(key, [...(values.get(key) ?? []), value]);
  return values;
}

const [gateway, consumer] = [unit('ingest-gateway@.service'), unit('ingest-consumer@.service')];
const check = unit('ingest-reconcile.service');

describe('both units', () => {
  it('restart unless the exit code is 2, 3 or 5, read one instance after all, and have settings and time to drain', () => {
    for (const [name, values] of Object.entries({ gateway, consumer })) {
      for (const [key, wanted] of Object.entries({
        Type: ['exec'],
        ExecStart: [`/usr/bin/ingest-${name}`],
        WantedBy: ['multi-user.target'],
        StartLimitIntervalSec: ['0'],
        StartLimitBurst: undefined,
        Restart: ['on-failure'],
        RestartSec: ['2'],
        RestartPreventExitStatus: ['2 3 5'],
        EnvironmentFile: [`-/etc/ingest/${name}.env`, `-/etc/ingest/${name}-%i.env`],
        UMask: ['0077'],
        StateDirectoryMode: ['0750'],
      }))
        assert.deepEqual(values.get(key), wanted, `${name}: ${key}`);
      const assignments = (values.get('Environment') ?? []).map((one) => one.replace('%i', '9470').split('='));
      const env = Object.fromEntries(assignments) as Record<string, string>;
      const config = name === 'gateway' ? gatewayOf(env) : consumerOf(env);
      assert.ok(Number(values.get('TimeoutStopSec')?.[0]) * 1_000 > config.drainTimeoutMs, name);
      if (!('adminAddress' in config)) {
        assert.deepEqual([config.address.host, config.address.port], ['127.0.0.1', 9470]);
        continue;
      }
      // Each instance listens on the port of producers, and serves operators on a port of its own, on loopback.
      assert.deepEqual([config.reusePort, config.adminOnly, config.address.port], [true, true, 8443]);
      assert.deepEqual([config.adminAddress?.host, config.adminAddress?.port], ['127.0.0.1', 9470]);
      assert.ok(Number(values.get('LimitNOFILE')?.[0]) > 2 * config.connectionsMax);
      assert.deepEqual(values.get('ExecReload'), ['/usr/bin/kill -HUP $MAINPID']);
    }
  });

  it('run as users whose groups may read the keys, as install.md installs them', () => {
    const installed = /^install -g (\w+) -m 640 (server\.pem .*) (\S+)$/m.exec(deployFile('install.md')) ?? [];
    const [, group = assert.fail(), files = '', folder = ''] = installed;
    assert.deepEqual(gateway.get('SupplementaryGroups'), [group]);
    assert.deepEqual(
      gateway.get('Environment')?.filter((one) => one.startsWith('INGEST_TLS_')),
      files.split(' ').map((name, at) => `INGEST_TLS_${['CERT', 'KEY', 'CLIENT_CA'][at]}=${folder}/${name}`),
    );
    // The folder also has the authorities of Redis and PostgreSQL, which every program reads.
    for (const values of [consumer, check])
      assert.deepEqual(values.get('InaccessiblePaths'), ['-/etc/ingest/tls/server-key.pem']);
  });

  it('are confined in the same way, and so is the check', () => {
    const [ofGateway = [], ofConsumer, ofCheck] = ['gateway@', 'consumer@', 'reconcile'].map((name) =>
      deployFile(`systemd/ingest-${name}.service`)
        .match(/^CapabilityBoundingSet=$[^]*^SystemCallErrorNumber=.*$/m)?.[0]
        .split('\n'),
    );
    assert.ok(ofGateway.length >= 28 && ofGateway.includes('ProtectSystem=strict'));
    assert.deepEqual(ofConsumer, ofGateway);
    // The check sets its priority.
    const others = ofGateway.filter((line) => !/^(?:PrivateMounts|RemoveIPC)=/.test(line));
    assert.deepEqual(
      ofCheck,
      others.map((line) => line.replace('~@privileged @resources', '~@privileged')),
    );
  });

  it('may write the SQLite file of install.md, as one user, and have compiled code for each instance', () => {
    const [, folder] = /sqlite:\/var\/lib\/(\w+)\/\w+\.db/.exec(deployFile('install.md')) ?? [];
    for (const values of [gateway, consumer]) {
      assert.deepEqual(values.get('StateDirectory'), [folder]);
      assert.equal(values.get('Environment')?.includes(`INGEST_STATE_DIR=%S/${folder}`), values === gateway);
      assert.deepEqual(values.get('User'), gateway.get('User'));
      assert.deepEqual(values.get('DynamicUser'), undefined, 'people may enter the folder, too');
      const [cache = ''] = values.get('CacheDirectory') ?? [];
      assert.match(cache, /%p-%i$/);
      assert.ok(values.get('Environment')?.includes(`NODE_COMPILE_CACHE=%C/${cache}`));
    }
  });
});

describe('the unit ingest-reconcile.service', () => {
  const values = check;

  it('runs a command of ingest-admin that changes nothing, more often than the queue forgets', () => {
    const [, ...args] = values.get('ExecStart')?.[0]?.split(' ') ?? [];
    const line = readCommandLine(args, 0);
    assert.ok(typeof line === 'object' && !args.includes('--land'), args.join(' '));
    assert.deepEqual(values.get('SuccessExitStatus'), ['1'], 'the alert reports missing events');
    const timer = unit('ingest-reconcile.timer');
    assert.deepEqual([timer.get('OnCalendar'), timer.get('Persistent')], [['*-*-* 00/6:17'], ['yes']]);
    assert.deepEqual([timer.get('RandomizedDelaySec'), timer.get('WantedBy')], [['10min'], ['timers.target']]);
    const [file = ''] = values.get('EnvironmentFile') ?? [];
    assert.ok(deployFile('install.md').includes(`"$INGEST_WAREHOUSE_URI" >${file}\n`), file);
  });

  it('may open the SQLite file of install.md, as the programs that write it', () => {
    const [, folder = ''] = /sqlite:(\/var\/lib\/\w+)\/\w+\.db/.exec(deployFile('install.md')) ?? [];
    assert.deepEqual(values.get('User'), gateway.get('User'));
    // SQLite writes beside the file also to read it.
    assert.deepEqual([values.get('ProtectSystem'), values.get('ReadWritePaths')], [['strict'], [`-${folder}`]]);
  });

  it('writes its metrics to a folder that others can read, and the page links the same file', () => {
    const [folder = ''] = values.get('StateDirectory') ?? [];
    assert.match(values.get('ExecStart')?.[0] ?? '', new RegExp(`%S/${folder}/ingest_reconcile\\.prom$`));
    assert.deepEqual([values.get('StateDirectoryMode'), values.get('UMask')], [['0755'], ['0022']]);
    assert.match(deployFile('install.md'), new RegExp(`^ln -s /var/lib/${folder}/ingest_reconcile\\.prom `, 'm'));
  });
});

describe('the Debian package', () => {
  tool('systemd-sysusers', 'systemd');
  const root = temporaryFolder();
  const path = (name: string): string => join(root, name);
  const script = (name: string, ...args: readonly string[]): string => {
    const env = { ...process.env, DPKG_ROOT: root };
    const { status, stderr } = spawnSync('sh', [join(DEPLOY, 'debian', name), ...args], { env, encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    return stderr;
  };
  const write = (name: string, text: string): void => {
    mkdirSync(dirname(path(name)), { recursive: true });
    writeFileSync(path(name), text);
  };

  it('changes no settings that are there, and an upgrade writes none', () => {
    write('usr/lib/sysusers.d/ingest-gateway.conf', deployFile('debian/sysusers.conf'));
    write('etc/ingest/consumer.env', 'INGEST_LOG_LEVEL=warn\n');
    const [gateway, consumer] = [path('etc/ingest/gateway.env'), path('etc/ingest/consumer.env')];
    script('postinst', 'configure', '');
    assert.equal(readFileSync(consumer, 'utf8'), 'INGEST_LOG_LEVEL=warn\n');
    rmSync(consumer);
    script('postinst', 'configure', '');
    for (const [name, file] of Object.entries({ gateway, consumer })) {
      // Nothing is set. What would be set is on the page.
      const [, page = ''] =
        new RegExp(`\`/etc/ingest/${name}\\.env\` needs:\n\n\`\`\`\n([^\`]+)\`\`\``).exec(deployFile('install.md')) ??
        [];
      const lines = readFileSync(file, 'utf8')
        .split('\n')
        .filter((line) => !line.startsWith('# '));
      assert.deepEqual(
        [...new Set(lines)],
        page.split('\n').map((line) => line.replace(/^(?=.)/, '#')),
      );
      assert.equal(statSync(file).mode & 0o777, 0o600);
    }
    rmSync(gateway);
    script('postinst', 'configure', '1.0.0');
    assert.ok(!existsSync(gateway));
    assert.match(deployFile('debian/control'), /^Depends: .* openssl, systemd \| systemd-standalone-sysusers$/m);
  });

  it('keeps settings in a removal and an upgrade, and data and their user in a purge', () => {
    const KEPT = ['var/lib/ingest/warehouse.db', 'etc/systemd/system/multi-user.target.wants/other@1.service'];
    const OWN = [
      ...['etc/ingest/tls/server-key.pem', 'var/cache/ingest/a/b', 'var/lib/ingest-metrics/ingest_reconcile.prom'],
      ...['gateway@9470.service', 'consumer@9464.service', 'reconcile.timer'].map(
        (name) => `etc/systemd/system/multi-user.target.wants/ingest-${name}`,
      ),
    ];
    const existing = (names: readonly string[]): readonly string[] => names.filter((name) => existsSync(path(name)));
    for (const name of [...KEPT, ...OWN, 'usr/lib/ingest-gateway/node_modules/.cache/x']) write(name, 'x');
    for (const call of ['upgrade', 'remove']) {
      script('prerm', call);
      script('postrm', call);
      assert.deepEqual(existing([...KEPT, ...OWN]), [...KEPT, ...OWN], call);
    }
    assert.ok(!existsSync(path('usr/lib/ingest-gateway/node_modules/.cache')));
    assert.match(script('postrm', 'purge'), /var\/lib\/ingest and the user ingest stay/);
    assert.deepEqual(existing([...KEPT, ...OWN]), KEPT);
    assert.match(readFileSync(path('etc/passwd'), 'utf8'), /^ingest:/m);
  });
});
