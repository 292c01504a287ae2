// The commands of the README that start everything, and those that developers type.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { GATEWAY, PATIENT, TestClient, TestProcess } from '../support/gateway.ts';
import { askOnce } from '../../lib/redis/server/ask-once.ts';
import { Program } from '../support/program.ts';
import { SYSTEM } from '../support/system.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';

const ROOT = join(import.meta.dirname, '../..');
const LONG = { tags: ['long'] };

const refused = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(false);
    });
    socket.once('error', () => resolve(true));
  });

async function assertEnded(run: TestProcess, stateDir: string, code = 0): Promise<void> {
  assert.deepEqual(await run.exited(), { code, signal: null }, run.output);
  const ports = [
    ...run.output.matchAll(/(?:(?:listening|process endpoints) on https?:\/\/|Redis on )127\.0\.0\.1:(\d+)/g),
  ];
  for (const [, port] of ports) assert.ok(await refused(Number(port)), `nothing listens on ${port} any more`);
  assert.ok(!existsSync(join(stateDir, 'run.json')), 'it has released its folder');
}

function ingestRun(stateDir: string, env: Readonly<Record<string, string>> = {}): TestProcess {
  const args = ['--disable-warning=ExperimentalWarning', join(ROOT, 'bin/ingest-run.ts')];
  const address = '127.0.0.1:0';
  return new TestProcess(join(ROOT, 'bin/node'), args, {
    ...{ ...PATIENT, INGEST_STATE_DIR: stateDir, INGEST_GATEWAY_ADDR: address, INGEST_CONSUMER_ADDR: address },
    ...{ INGEST_ADMIN_ADDR: address, ...env },
  });
}

describe('ingest-run', () => {
  it('prints commands that send and follow an event, and programs find its folder until Ctrl-C', async () => {
    const folder = temporaryFolder('ingest run ');
    const stateDir = join(folder, '.ingest');
    const run = ingestRun(stateDir);
    await run.line(/Ctrl-C ends everything/);
    const page = /^Open (http:\/\/127\.0\.0\.1:\d+\/) to watch it\.$/.exec(run.lines[0] ?? '')?.[1] ?? '';
    assert.match(await (await fetch(page)).text(), /<!doctype html>/, run.output);
    const [send = '', look = ''] = run.lines.filter((line) => line.startsWith('  curl '));
    const pem = (name: string): string => readFileSync(join(stateDir, 'tls', name), 'utf8');
    const producer = { cert: pem('producer.pem'), key: pem('producer-key.pem'), serial: '' };
    const { port, pathname } = new URL(/(https:\S+)$/.exec(look)?.[1] ?? '');
    const client = new TestClient(Number(port), pem('ca.pem'), producer, {});
    const body = / -d '([^']+)'/.exec(send)?.[1] ?? '';
    assert.deepEqual((await client.post(body)).json, { id: 'first', status: 'accepted' });
    const landed = await eventually('it has landed', async () => {
      const { json } = await client.ask({ path: pathname });
      return json?.['status'] === 'landed' && json;
    });
    assert.deepEqual(landed['event'], JSON.parse(body));
    await run.line(/first event landed after \d+ ms/);
    const show = run.lines.find((line) => line.includes('ingest-admin event first')) ?? '';
    assert.match(execFileSync('sh', ['-c', show], { encoding: 'utf8' }), /landed[^]*example\.created/);

    const mode = (name: string): number => statSync(join(stateDir, name)).mode & 0o777;
    assert.deepEqual([mode('redis'), mode('warehouse.db')], [0o700, 0o600], 'only their owner reads bodies');
    const { INGEST_QUEUE_URI: uri } = JSON.parse(readFileSync(join(stateDir, 'run.json'), 'utf8')) as Record<
      string,
      string
    >;
    for (const [name, value] of Object.entries({
      ...{ bind: '127.0.0.1', dir: join(stateDir, 'redis'), appendonly: 'yes', appendfsync: 'everysec' },
      ...{ 'maxmemory-policy': 'noeviction', 'stream-node-max-bytes': '32768', 'stream-node-max-entries': '1000' },
    })) {
      const reply = await askOnce(SYSTEM, uri ?? '', (server) => server.send(['CONFIG', 'GET', name]));
      assert.deepEqual(reply, [name, value]);
    }
    // A signal of the terminal reaches only the program, which stops its parts in order.
    const pid = String(run.child.pid);
    const partIds = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
    assert.equal(partIds.length, 3);
    for (const part of partIds) assert.equal(readFileSync(`/proc/${part}/stat`, 'utf8').split(' ')[4], part);
    const second = ingestRun(stateDir);
    assert.equal((await second.exited()).code, 1, second.output);
    assert.match(second.output, /another run uses .*\.ingest: end it, or set INGEST_STATE_DIR/);
    const sent = new Program('ingest-send', { args: ['--sample', '5'], cwd: folder });
    assert.equal(await sent.ended, 0, sent.output);
    assert.match(sent.output, /^accepted +5$/m);
    run.signal('SIGINT');
    await assertEnded(run, stateDir);
    assert.equal(run.output.match(/\bRedis on /g)?.length, 1);
    // The gateway answers what it has received before the queue ends.
    const ends = ['ingest-gateway', 'ingest-consumer'].map((name) =>
      run.lines.findIndex((line) => line.includes(name) && /stopped/.test(line)),
    );
    assert.ok((ends[0] ?? -1) > 0 && (ends[0] ?? 0) < (ends[1] ?? 0), run.output);
    const after = new Program('ingest-admin', { args: ['status'], cwd: folder });
    assert.equal(await after.ended, 2, after.output);
    assert.match(after.output, /INGEST_QUEUE_URI: is required/);
  });

  it("uses the queue that a file names, and stops with the gateway's code if that cannot start", async () => {
    const [stateDir, redis] = [temporaryFolder(), await TestRedis.start()];
    const file = join(stateDir, 'uri');
    writeFileSync(file, redis.uri);
    const run = ingestRun(stateDir, { INGEST_GATEWAY_ADDR: 'nowhere', INGEST_QUEUE_URI_FILE: file });
    await assertEnded(run, stateDir, 2);
    assert.match(run.output, /INGEST_GATEWAY_ADDR="nowhere"/);
    assert.match(run.output, /ingest-gateway ended \(2\); ending the rest/);
    assert.doesNotMatch(run.output, /Redis on/);
  });

  it('stops all parts in order if its terminal is closed, or the reader of its output', LONG, async () => {
    for (const close of [
      (run: TestProcess): void => run.signal('SIGHUP'),
      (run: TestProcess): void => {
        run.child.stdout.destroy();
        run.signal('SIGTERM');
      },
    ]) {
      const stateDir = temporaryFolder();
      const run = ingestRun(stateDir);
      await run.line(/Ctrl-C ends everything/);
      close(run);
      await assertEnded(run, stateDir);
    }
  });

  it('does not start a second Redis on the data of one that survived a killed run', LONG, async () => {
    const stateDir = temporaryFolder();
    const data = join(stateDir, 'redis');
    mkdirSync(data);
    const port = await freePort();
    const server = execFileSync(join(ROOT, 'bin/ensure-redis'), { encoding: 'utf8' }).trim();
    const redis = new TestProcess(server, ['--bind', '127.0.0.1', '--port', `${port}`, '--dir', data], {});
    await redis.line(/Ready to accept connections/);
    writeFileSync(join(stateDir, 'run.json'), JSON.stringify({ INGEST_QUEUE_URI: `redis://127.0.0.1:${port}` }));
    const run = ingestRun(stateDir);
    assert.equal((await run.exited()).code, 1, run.output);
    assert.match(run.output, /the Redis of an earlier run still uses/);
  });

  it(
    'starts although another program has the port of the Redis of an earlier run, and does not answer',
    LONG,
    async () => {
      const silent = createServer((socket) => socket.resume()).listen(0, '127.0.0.1');
      atEnd(() => void silent.close());
      await once(silent, 'listening');
      const stateDir = temporaryFolder();
      const uri = `redis://127.0.0.1:${(silent.address() as AddressInfo).port}`;
      writeFileSync(join(stateDir, 'run.json'), JSON.stringify({ INGEST_QUEUE_URI: uri }), { mode: 0o600 });
      const run = ingestRun(stateDir);
      await run.line(/Ctrl-C ends everything/);
      run.signal('SIGTERM');
      assert.deepEqual(await run.exited(), { code: 0, signal: null }, run.output);
    },
  );
});

it('bin/ensure-command installs while another caller does', LONG, async () => {
  const commands = ['hello', 'figlet', 'toilet'];
  execFileSync('apt-get', ['remove', '-y', '-qq', '-o', 'DPkg::Lock::Timeout=300', ...commands], { stdio: 'ignore' });
  const ensure = (command: string) => promisify(execFile)(join(ROOT, 'bin/ensure-command'), [command, command]);
  const found = await Promise.all(commands.map(ensure));
  assert.deepEqual(
    found.map(({ stdout }) => stdout),
    commands.map((command) => `/usr/bin/${command}\n`),
  );
});

it('make dev-cert makes a certificate for another producer', LONG, async () => {
  const stateDir = temporaryFolder('ingest dev cert ');
  const redis = await TestRedis.start();
  const env = { INGEST_STATE_DIR: stateDir, INGEST_QUEUE_URI: redis.uri, INGEST_GATEWAY_ADDR: '127.0.0.1:0' };
  const gateway = new TestProcess(GATEWAY, [], env);
  const url = /(https:[^"]+)/.exec(await gateway.line(/listening on/))?.[1] ?? '';
  const made = new TestProcess('make', ['--no-print-directory', '-C', ROOT, 'dev-cert', 'NAME=shop'], env);
  assert.equal((await made.exited()).code, 0, made.output);
  const options = /--cert (.+) --key (.+) --ca (.+)/.exec(await made.line(/--cert/));
  const [cert = '', key = '', ca = ''] = options?.slice(1) ?? [];
  const args = ['--url', url, '--cert', cert, '--key', key, '--ca', ca];
  const sent = new Program('ingest-send', { args: [...args, '--sample', '20'], env, cwd: stateDir });
  assert.equal(await sent.ended, 0, sent.output);
  assert.match(sent.output, /accepted\s+20/);
  const entries = await redis.entries();
  assert.equal(new Set(entries.map(({ fields }) => fields['body'])).size, 20);
  assert.deepEqual([...new Set(entries.map(({ fields }) => fields['producer']))], ['urn:ingest:producer:shop']);
});

it(
  'make dev restarts the gateway and the consumer when a file changes, and ends them when it is stopped',
  LONG,
  async () => {
    const folder = temporaryFolder('ingest-dev-');
    for (const path of ['bin', 'deploy', 'lib', 'openapi', 'Makefile', 'package.json', 'package-lock.json'])
      cpSync(join(ROOT, path), join(folder, path), { recursive: true, preserveTimestamps: true });
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    const env = Object.fromEntries(
      ['GATEWAY', 'CONSUMER', 'ADMIN'].map((name) => [`INGEST_${name}_ADDR`, '127.0.0.1:0']),
    );
    const dev = new TestProcess('make', ['-C', folder, 'dev'], { ...env, INGEST_STATE_DIR: join(folder, 'state') });
    const starts = (program: string): number =>
      dev.lines.filter((line) => line.includes(`${program} listening on `)).length;
    const started = (times: number): Promise<boolean> =>
      eventually(`${times} starts`, () => Math.min(starts('ingest-gateway'), starts('ingest-consumer')) === times);
    await started(1);
    appendFileSync(join(folder, 'lib/redis/stream/lua/accept.lua'), '-- A change.\n');
    await started(2);
    appendFileSync(join(folder, 'lib/consumer/consumer.ts'), '// A change.\n');
    await started(3);
    dev.signal('SIGTERM');
    await dev.exited();
    const ports = [...dev.output.matchAll(/listening on https?:\/\/127\.0\.0\.1:(\d+)/g)].map(([, port]) =>
      Number(port),
    );
    for (const port of ports) assert.ok(await eventually('the port is closed', () => refused(port)));
  },
);
