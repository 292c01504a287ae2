import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { anchorsOf, ENTRYPOINT, withoutBlocks } from './deploy-files.ts';
import { rule } from '../support/redis-rights.ts';
import { KNOWN_KEYS } from '../../lib/process/settings.ts';

const ROOT = new URL('../../', import.meta.url).pathname;
const pages = [
  ...readdirSync(join(ROOT, 'deploy')).map((name) => `deploy/${name}`),
  ...readdirSync(join(ROOT, '.github')).map((name) => `.github/${name}`),
].filter((path) => path.endsWith('.md'));
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

describe('the pages of deploy and .github', () => {
  for (const page of pages) {
    it(`${page} links to files and chapters that exist`, () => {
      for (const [, target = ''] of withoutBlocks(read(page)).matchAll(/\]\(([^)]+)\)/g)) {
        if (/^https?:/.test(target)) continue;
        const [file = '', anchor] = target.split('#');
        const path = file === '' ? page : join(dirname(page), file);
        assert.ok(existsSync(join(ROOT, path)), target);
        if (anchor !== undefined) assert.ok(anchorsOf(read(path)).includes(anchor), target);
      }
    });
  }

  it('name no setting that does not exist', () => {
    const other = ['INGEST_SHED', 'INGEST_TLS_DIR', 'INGEST_TEST_POSTGRES_URI'];
    for (const page of pages.filter((path) => path.startsWith('deploy/')))
      for (const [key] of read(page).matchAll(/\bINGEST_[A-Z0-9_]*[A-Z0-9]\b/g))
        assert.ok(KNOWN_KEYS.includes(key) || other.includes(key), `${page}: ${key}`);
  });
});

describe('the image', () => {
  it("starts node with the gateway's limits of V8's memory, without which each collection becomes a full one", () => {
    const launcher = /^exec [^]*/m.exec(read('bin/ingest-gateway'))?.[0] ?? '';
    const options = (text: string): string[] => text.match(/--(?!disable)[a-z-]+(=\d+)?/g) ?? [];
    assert.equal(options(launcher).length, 3);
    assert.deepEqual(ENTRYPOINT, ['node', '--disable-sigusr1', ...options(launcher)]);
    const [threshold = ''] = /(?<=MALLOC_MMAP_THRESHOLD_:-)\d+/.exec(read('bin/ingest-gateway')) ?? [];
    assert.match(read('deploy/Containerfile'), new RegExp(`^ENV MALLOC_MMAP_THRESHOLD_=${threshold}$`, 'm'));
  });

  it('runs as a user without rights, listens on all addresses, is asked whether it lives, and ends by SIGTERM', () => {
    const text = read('deploy/Containerfile').replaceAll('\\\n', '');
    const last = (word: string): string => [...text.matchAll(new RegExp(`^${word} (.*)$`, 'gm'))].at(-1)?.[1] ?? '';
    assert.deepEqual(['USER', 'STOPSIGNAL', 'CMD'].map(last), ['65532:65532', 'SIGTERM', '["ingest-gateway.js"]']);
    const label = (name: string): string => `org.opencontainers.image.${name}=\${${name.toUpperCase()}}`;
    assert.deepEqual([last('LABEL'), last('EXPOSE')], [['version', 'revision'].map(label).join(' '), '8443 9464']);
    // The last stage copies the folder in which the first one has compiled the programs.
    const [cache] = new Set(Array.from(text.matchAll(/^ENV NODE_COMPILE_CACHE=(.*)$/gm), ([, folder = '']) => folder));
    assert.ok(last('COPY') === '--from=install /app /app' && cache === '/app/compile-cache');
    assert.match(
      last('RUN'),
      /for program in gateway consumer send admin; do node ingest-\$program\.js --version; done$/,
    );
    const ports = Object.fromEntries(
      [...text.matchAll(/(INGEST_\w+_ADDR)=0\.0\.0\.0:(\d+)/g)].map(([, key = '', port]) => [key, port]),
    );
    assert.deepEqual(ports, { INGEST_GATEWAY_ADDR: '8443', INGEST_ADMIN_ADDR: '9464', INGEST_CONSUMER_ADDR: '9464' });
    assert.match(
      last('HEALTHCHECK'),
      /^--interval=10s --timeout=3s --start-period=10s .*127\.0\.0\.1:9464\/health\/live.*ok \? 0 : 1\), \(\) => process\.exit\(1\)/,
    );
  });
});

describe('the files of deploy/redis', () => {
  it('contain the users of install.md', () => {
    const users = read('deploy/redis/users.acl').split('\n');
    assert.equal(users[0], 'user default off');
    for (const name of ['ingest-gateway', 'ingest-consumer', 'ingest-admin', 'ingest-operator']) {
      const found = users.find((line) => line.startsWith(`user ${name} `)) ?? '';
      const rights = found.replace(/>\S+/, '>secret').split(' ').slice(2);
      // Among replicas, gateways wait for those that INGEST_QUEUE_REPLICAS requires.
      assert.deepEqual(rights, name === 'ingest-gateway' ? [...rule(name), '+wait'] : rule(name), name);
    }
  });

  it('give replicas and sentinels the rights that the documentation of Redis lists for them', () => {
    const users = read('deploy/redis/users.acl');
    for (const [name, wanted] of [
      ['ingest-replica', '+psync +replconf +ping'],
      [
        'ingest-sentinel',
        'allchannels +multi +slaveof +ping +exec +subscribe +config|rewrite +role +publish +info +client|setname +client|kill +script|kill',
      ],
    ] as const) {
      const [, rights = ''] = new RegExp(`^user ${name} on >\\S+ (.*)$`, 'm').exec(users) ?? [];
      assert.deepEqual(rights.split(' ').sort(), wanted.split(' ').sort(), name);
    }
  });

  it('make two of three sentinels agree, after five seconds, and the replicas follow one by one', () => {
    const lines = (name: string) =>
      read(`deploy/redis/${name}`)
        .split('\n')
        .filter((line) => /^[^#]/.test(line));
    assert.deepEqual(lines('sentinel.conf'), [
      ...[
        'bind * -::*',
        'port 26379',
        'dir /var/lib/redis',
        'protected-mode no',
        'aclfile /etc/redis/sentinel-users.acl',
      ],
      ...['sentinel sentinel-user ingest-sentinel', 'sentinel sentinel-pass SENTINEL_PASSWORD'],
      ...['sentinel monitor ingest 10.0.0.1 6379 2', 'sentinel auth-user ingest ingest-sentinel'],
      ...['sentinel auth-pass ingest SENTINEL_PASSWORD', 'sentinel down-after-milliseconds ingest 5000'],
      ...['sentinel failover-timeout ingest 30000', 'sentinel parallel-syncs ingest 1'],
    ]);
    const asks = '-@all +client|setname +sentinel|get-master-addr-by-name';
    assert.deepEqual(lines('sentinel-users.acl'), [
      'user default off',
      ...['gateway', 'consumer', 'admin'].map(
        (name) => `user ingest-${name} on >${name.toUpperCase()}_PASSWORD ${asks}`,
      ),
      'user ingest-operator on >OPERATOR_PASSWORD allchannels +@connection +info +role +sentinel',
      'user ingest-sentinel on >SENTINEL_PASSWORD allchannels +ping +publish +subscribe +client|setname +sentinel|is-master-down-by-addr',
    ]);
    // Besides the settings of install.md.
    const others = ['bind * -::*', 'port 6379', 'dir /var/lib/redis', 'protected-mode no'];
    for (const line of [...others, 'masteruser ingest-replica', 'masterauth REPLICA_PASSWORD'])
      assert.ok(lines('redis.conf').includes(line), line);
  });

  it('contain the settings of install.md', () => {
    const wanted = /^aclfile[^`]*(?=^```)/m.exec(read('deploy/install.md'))?.[0].trim().split('\n') ?? [];
    assert.ok(wanted.length >= 7);
    for (const line of wanted) assert.ok(read('deploy/redis/redis.conf').split('\n').includes(line), line);
  });
});
