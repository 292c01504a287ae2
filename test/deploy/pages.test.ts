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
    const ports = Object.fromEntries(
      [...text.matchAll(/(INGEST_\w+_ADDR)=0\.0\.0\.0:(\d+)/g)].map(([, key = '', port]) => [key, port]),
    );
    assert.deepEqual(ports, { INGEST_GATEWAY_ADDR: '8443', INGEST_ADMIN_ADDR: '9464', INGEST_CONSUMER_ADDR: '9464' });
    assert.match(last('HEALTHCHECK'), /127\.0\.0\.1:9464\/health\/live.*ok \? 0 : 1\), \(\) => process\.exit\(1\)/);
  });
});

describe('the files of deploy/redis', () => {
  it('contain the users of install.md', () => {
    const users = read('deploy/redis/users.acl').split('\n');
    assert.equal(users[0], 'user default off');
    for (const name of ['ingest-gateway', 'ingest-consumer', 'ingest-admin', 'ingest-operator']) {
      const found = users.find((line) => line.startsWith(`user ${name} `)) ?? '';
      const rights = found.replace(/>\S+/, '>secret').split(' ').slice(2);
      assert.equal(rights.filter((right) => right !== '+wait').join(' '), rule(name).join(' '), name);
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
    const [conf, acl] = [read('deploy/redis/sentinel.conf'), read('deploy/redis/sentinel-users.acl')];
    assert.match(conf, /^sentinel monitor ingest \S+ 6379 2$[^]*^sentinel down-after-milliseconds ingest 5000$/m);
    assert.match(conf, /^sentinel parallel-syncs ingest 1$/m);
    assert.match(acl, /^user default off$/m);
  });

  it('contain the settings of install.md', () => {
    const wanted = /^aclfile[^`]*(?=^```)/m.exec(read('deploy/install.md'))?.[0].trim().split('\n') ?? [];
    assert.ok(wanted.length >= 7);
    for (const line of wanted) assert.ok(read('deploy/redis/redis.conf').split('\n').includes(line), line);
  });
});
