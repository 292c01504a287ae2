// systemd.long.ts checks the units with systemd's own tools.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { readCommandLine } from '../../lib/admin/command-line.ts';
import { SETTINGS } from '../../lib/process/settings.ts';
import { temporaryFolder } from '../support/scope.ts';
import { DEPLOY, deployFile, tool } from './deploy-files.ts';

function unit(name: string): ReadonlyMap<string, readonly string[]> {
  const values = new Map<string, string[]>();
  for (const [, key = '', value = ''] of deployFile(`systemd/${name}`).matchAll(/^(\w+)=(.*)$/gm))
    values.set(key, [...(values.get(key) ?? []), value]);
  return values;
}

const [gateway, consumer] = [unit('ingest-gateway@.service'), unit('ingest-consumer@.service')];

describe('both units', () => {
  it('restart unless the exit code is 2, 3 or 5, read one instance after all, and serve operators on loopback', () => {
    for (const [name, values] of Object.entries({ gateway, consumer })) {
      for (const [key, wanted] of Object.entries({
        StartLimitIntervalSec: ['0'],
        StartLimitBurst: undefined,
        Restart: ['on-failure'],
        RestartSec: ['2'],
        RestartPreventExitStatus: ['2 3 5'],
        EnvironmentFile: [`-/etc/ingest/${name}.env`, `-/etc/ingest/${name}-%i.env`],
      }))
        assert.deepEqual(values.get(key), wanted, `${name}: ${key}`);
      const keys = (values.get('Environment') ?? []).map((assignment) => assignment.split('=')[0] ?? '');
      for (const key of keys) assert.ok(!key.startsWith('INGEST_') || key in SETTINGS, key);
    }
    for (const loopback of ['INGEST_ADMIN_ONLY=1', 'INGEST_ADMIN_ADDR=127.0.0.1:%i'])
      assert.ok(gateway.get('Environment')?.includes(loopback), loopback);
  });

  it('run as users whose groups may read the keys, as install.md installs them', () => {
    const [, group = ''] = /^install -g (\w+) -m 640 server\.pem/m.exec(deployFile('install.md')) ?? [];
    assert.notEqual(group, '');
    assert.deepEqual(gateway.get('SupplementaryGroups'), [group]);
    // The folder also has the authorities of Redis and PostgreSQL, which every program reads.
    for (const values of [consumer, unit('ingest-reconcile.service')])
      assert.deepEqual(values.get('InaccessiblePaths'), ['-/etc/ingest/tls/server-key.pem']);
  });

  it('may write the SQLite file of install.md, as one user, and have compiled code for each instance', () => {
    const [, folder] = /sqlite:\/var\/lib\/(\w+)\/\w+\.db/.exec(deployFile('install.md')) ?? [];
    for (const values of [gateway, consumer]) {
      assert.deepEqual(values.get('StateDirectory'), [folder]);
      assert.deepEqual(values.get('User'), gateway.get('User'));
      assert.deepEqual(values.get('DynamicUser'), undefined, 'people may enter the folder, too');
      const [cache = ''] = values.get('CacheDirectory') ?? [];
      assert.match(cache, /%p-%i$/);
      assert.ok(values.get('Environment')?.includes(`NODE_COMPILE_CACHE=%C/${cache}`));
    }
  });
});

describe('the unit ingest-reconcile.service', () => {
  const values = unit('ingest-reconcile.service');

  it('runs a command of ingest-admin that changes nothing, more often than the queue forgets', () => {
    const [, ...args] = values.get('ExecStart')?.[0]?.split(' ') ?? [];
    const line = readCommandLine(args, 0);
    assert.ok(typeof line === 'object' && !args.includes('--land'), args.join(' '));
    assert.deepEqual(unit('ingest-reconcile.timer').get('OnCalendar'), ['*-*-* 00/6:17']);
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

it('the Debian package changes no settings that are there, and an upgrade writes none', () => {
  tool('systemd-sysusers', 'systemd');
  const root = temporaryFolder();
  const [users, folder] = [join(root, 'usr/lib/sysusers.d'), join(root, 'etc/ingest')];
  for (const path of [users, folder]) mkdirSync(path, { recursive: true });
  cpSync(join(DEPLOY, 'debian/sysusers.conf'), join(users, 'ingest-gateway.conf'));
  const [gateway, consumer] = ['gateway', 'consumer'].map((name) => join(folder, `${name}.env`)) as [string, string];
  writeFileSync(consumer, 'INGEST_LOG_LEVEL=warn\n');
  const configure = (...older: readonly string[]): unknown =>
    execFileSync('sh', [join(DEPLOY, 'debian/postinst'), 'configure', ...older], {
      env: { ...process.env, DPKG_ROOT: root },
      stdio: 'ignore',
    });
  configure();
  assert.equal(readFileSync(consumer, 'utf8'), 'INGEST_LOG_LEVEL=warn\n');
  assert.match(readFileSync(gateway, 'utf8'), /^#INGEST_QUEUE_URI=redis:/m);
  assert.equal(statSync(gateway).mode & 0o777, 0o600);
  rmSync(gateway);
  configure('1.0.0');
  assert.ok(!existsSync(gateway));
});
