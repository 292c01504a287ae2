import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { createServer } from 'node:net';
import { GATEWAY, TestProcess, event, PATIENT, TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { TestRedis, freePort } from '../support/redis.ts';
import { temporaryFolder, atEnd } from '../support/scope.ts';

type Env = Readonly<Record<string, string>>;

let redis: TestRedis;
let pki: Pki;
let good: Env;

before(async () => {
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  good = {
    INGEST_QUEUE_URI: redis.uri,
    INGEST_GATEWAY_ADDR: '127.0.0.1:0',
    INGEST_STATE_DIR: temporaryFolder(),
    ...pki.environment,
  };
});

function messageOf(line: string): string {
  try {
    return String((JSON.parse(line) as { msg: unknown }).msg);
  } catch {
    return line;
  }
}

async function run(
  args: readonly string[],
  env: Env,
): Promise<{ readonly code: number | null; readonly output: string }> {
  const child = new TestProcess(GATEWAY, args, env);
  const { code } = await child.exited();
  return { code, output: child.lines.map(messageOf).join('\n') };
}

async function assertEnds(
  code: number,
  env: Env,
  words: readonly RegExp[],
  args: readonly string[] = [],
): Promise<string> {
  const ended = await run(args, env);
  assert.equal(ended.code, code, ended.output);
  for (const word of words) assert.match(ended.output, word);
  assert.doesNotMatch(ended.output, /listening on|\n {4}at /, 'it did not listen and shows no stack');
  return ended.output;
}

describe('a gateway that cannot start', { concurrency: 3 }, () => {
  it('exits with 2 and reports every problem and warning without the password', { tags: ['long'] }, async () => {
    const output = await assertEnds(
      2,
      {
        INGEST_QUEUE_URI: 'http://u:hunter2@h',
        INGEST_LOG_LEVEL: 'loud',
        INGEST_GATEWAY_ADR: 'x',
        INGEST_BODY_BYTES_MAX: '0',
      },
      [
        /INGEST_QUEUE_URI="http:\/\/u:\*\*\*@h/,
        /INGEST_LOG_LEVEL="loud": expected one of debug, info, warn, error/,
        /INGEST_BODY_BYTES_MAX="0"/,
        /INGEST_GATEWAY_ADR is not a known key; the nearest one is INGEST_GATEWAY_ADDR/,
      ],
    );
    assert.doesNotMatch(output, /hunter2/);
  });

  it('exits with 3 if its address is in use, and names the setting and a remedy', async () => {
    const owner = createServer();
    atEnd(() => void owner.close());
    await new Promise<void>((resolve) => owner.listen(0, '127.0.0.1', resolve));
    const address = owner.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    await assertEnds(3, { ...good, INGEST_GATEWAY_ADDR: `127.0.0.1:${port}` }, [
      /INGEST_GATEWAY_ADDR=127\.0\.0\.1:\d+: cannot be bound \(EADDRINUSE\); see who owns the port/,
    ]);
  });

  it('exits with 4 if nobody listens at the queue URI, without printing the password', { tags: ['long'] }, async () => {
    const output = await assertEnds(
      4,
      { ...good, INGEST_QUEUE_URI: `redis://u:hunter2@127.0.0.1:${await freePort()}` },
      [/INGEST_QUEUE_URI=redis:\/\/u:\*\*\*@127\.0\.0\.1:\d+.*the queue takes no events.*check that the server runs/],
    );
    assert.doesNotMatch(output, /hunter2/);
  });

  it(
    'exits with 4 if the queue may lose events and INGEST_QUEUE_DURABILITY=require, and otherwise only warns',
    { tags: ['long'] },
    async () => {
      const forgetful = await TestRedis.start(['--appendonly', 'no', '--maxmemory-policy', 'allkeys-lru']);
      const env = { ...good, INGEST_QUEUE_URI: forgetful.uri };
      await assertEnds(4, { ...env, INGEST_QUEUE_DURABILITY: 'require' }, [
        /INGEST_QUEUE_DURABILITY=require: .*set it to noeviction; .*set appendonly yes/,
      ]);
      const warned = await TestGateway.start(forgetful, pki);
      for (const fault of [/noeviction/, /appendonly/])
        assert.match(warned.lines.filter((line) => line.includes('"warn"')).join('\n'), fault);
    },
  );

  it('exits with 2 without openssl, and names the package in one sentence', async () => {
    const path = temporaryFolder();
    for (const command of ['readlink', 'dirname', 'sed'])
      symlinkSync(
        execFileSync('sh', ['-c', `command -v ${command}`], { encoding: 'utf8' }).trim(),
        join(path, command),
      );
    const env = { PATH: path, INGEST_QUEUE_URI: 'redis://127.0.0.1:1', INGEST_GATEWAY_ADDR: '127.0.0.1:0' };
    const gateway = new Program('ingest-gateway', {
      env: { ...env, INGEST_STATE_DIR: temporaryFolder(), INGEST_LOG_LEVEL: 'error' },
    });
    assert.equal(await gateway.ended, 2, gateway.output);
    assert.match(
      gateway.output,
      /"msg":".*openssl was not found: install it \(Debian, Ubuntu: apt-get install openssl\), /,
    );
  });

  it('exits with 3 if its address belongs to another machine', { tags: ['long'] }, async () => {
    await assertEnds(3, { ...good, INGEST_GATEWAY_ADDR: '192.0.2.1:0' }, [
      /INGEST_GATEWAY_ADDR=192\.0\.2\.1:0: cannot be bound \(EADDRNOTAVAIL\)/,
    ]);
  });
});

describe('a gateway that starts', () => {
  it('logs its address, also through a symbolic link, and keeps the process id', async (t) => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'bin'));
    symlinkSync(GATEWAY, join(folder, 'bin', 'gateway'));
    const startMs = performance.now();
    const child = new TestProcess('/bin/sh', ['-c', 'cd "$1" && exec bin/gateway', 'sh', folder], good);
    const line = await child.line(/"msg":"listening on https:\/\/127\.0\.0\.1:[1-9]\d*"/);
    t.diagnostic(`start to listening: ${Math.round(performance.now() - startMs)} ms`);
    assert.equal((JSON.parse(line) as { pid: number }).pid, child.child.pid);
    child.signal('SIGTERM');
    assert.deepEqual(await child.exited(), { code: 0, signal: null });
  });

  it('exits with 0 on SIGINT', async () => {
    const gateway = await TestGateway.start(redis, pki);
    gateway.signal('SIGINT');
    assert.deepEqual(await gateway.exited(), { code: 0, signal: null });
    assert.match(gateway.lines.at(-1) ?? '', /"msg":"stopped"/);
  });

  const made = 'makes development certificates on loopback, warns of them, keeps them, and accepts an event with them';
  it(made, { tags: ['long'] }, async () => {
    const folder = temporaryFolder();
    const tls = join(folder, 'made', 'tls');
    const env = {
      ...PATIENT,
      INGEST_TLS_CERT: '',
      INGEST_TLS_KEY: '',
      INGEST_TLS_CLIENT_CA: '',
      INGEST_STATE_DIR: join(folder, 'made'),
    };
    const first = await TestGateway.start(redis, pki, env);
    assert.match(first.output, /"level":"warn".*development certificates, which are not for production/);
    const [ca, cert, key] = ['ca.pem', 'producer.pem', 'producer-key.pem'].map((name) =>
      readFileSync(join(tls, name), 'utf8'),
    );
    assert.ok(ca !== undefined && cert !== undefined && key !== undefined);
    const producer = first.client({ cert, key, serial: '' }, { ca });
    assert.equal((await producer.post(event('development'))).status, 202);
    await TestGateway.start(redis, pki, env);
    assert.equal(readFileSync(join(tls, 'ca.pem'), 'utf8'), ca);
  });
});
