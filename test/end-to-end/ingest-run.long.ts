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
import { Program } from '../support/program.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';

const ROOT = join(import.meta.dirname, '../..');

function clientOf(stateDir: string, url: string): TestClient {
  const pem = (name: string): string => readFileSync(join(stateDir, 'tls', name), 'utf8');
  const producer = { cert: pem('producer.pem'), key: pem('producer-key.pem'), serial: '' };
  return new TestClient(Number(new URL(url).port), pem('ca.pem'), producer, {});
}

const refused = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(false);
    });
    socket.once('error', () => resolve(true));
  });

async function assertNothingListens({ output }: TestProcess): Promise<void> {
  const ports = [...output.matchAll(/(?:listening on https?:\/\/|Redis on )127\.0\.0\.1:(\d+)/g)];
  assert.equal(ports.length, 3, output);
  for (const [, port] of ports) assert.ok(await refused(Number(port)), `nothing listens on ${port} any more`);
}

function ingestRun(stateDir: string, gatewayAddress: string): TestProcess {
  const args = ['--disable-warning=ExperimentalWarning', join(ROOT, 'bin/ingest-run.ts')];
  return new TestProcess(join(ROOT, 'bin/node'), args, {
    ...PATIENT,
    INGEST_STATE_DIR: stateDir,
    INGEST_GATEWAY_ADDR: gatewayAddress,
    INGEST_CONSUMER_ADDR: '127.0.0.1:0',
    INGEST_ADMIN_ADDR: '127.0.0.1:0',
  });
}

describe('ingest-run', () => {
  it('prints commands that send an event, follow it from accepted to landed, and show it in the warehouse', async () => {
    const stateDir = temporaryFolder('ingest run ');
    const run = ingestRun(stateDir, '127.0.0.1:0');
    await run.line(/Ctrl-C ends everything/);
    const page = /^Open (http:\/\/127\.0\.0\.1:\d+\/) to watch it\.$/.exec(run.lines[0] ?? '')?.[1] ?? '';
    assert.match(await (await fetch(page)).text(), /<!doctype html>/, run.output);
    const [send, look] = run.lines.filter((line) => line.startsWith('  curl '));
    const body = / -d '([^']+)'/.exec(send ?? '')?.[1] ?? '';
    const url = (line: string | undefined): string => /(https:\S+)$/.exec(line ?? '')?.[1] ?? '';
    const client = clientOf(stateDir, url(send));
    assert.deepEqual((await client.post(body)).json, { id: 'first', status: 'accepted' });
    assert.ok(url(look).endsWith('/events/first'));
    const landed = await eventually('it has landed', async () => {
      const { json } = await client.find('first');
      return json?.['status'] === 'landed' && json;
    });
    assert.deepEqual(landed['event'], JSON.parse(body));
    await run.line(/first event landed after \d+ ms/);

    const show = run.lines.find((line) => line.includes('ingest-admin event first')) ?? '';
    assert.match(execFileSync('sh', ['-c', show], { encoding: 'utf8' }), /landed[^]*example\.created/);

    run.signal('SIGINT');
    assert.deepEqual(await run.exited(), { code: 0, signal: null }, run.output);
    assert.ok(await refused(Number(new URL(page).port)), 'nothing listens on the status page');
    await assertNothingListens(run);
  });

  it('stops all parts in order if its terminal is closed, or the reader of its output', async () => {
    for (const close of [
      (run: TestProcess): void => run.signal('SIGHUP'),
      (run: TestProcess): void => {
        run.child.stdout.destroy();
        run.signal('SIGTERM');
      },
    ]) {
      const stateDir = temporaryFolder();
      const run = ingestRun(stateDir, '127.0.0.1:0');
      await run.line(/Ctrl-C ends everything/);
      close(run);
      assert.deepEqual(await run.exited(), { code: 0, signal: null }, run.output);
      await assertNothingListens(run);
      assert.ok(!existsSync(join(stateDir, 'run.json')), 'it has released its folder');
    }
  });

  it('locks its state folder, where ingest-admin and ingest-send find it without settings', async () => {
    const folder = temporaryFolder();
    const run = ingestRun(join(folder, '.ingest'), '127.0.0.1:0');
    await run.line(/Ctrl-C ends everything/);
    await eventually('the consumer has made its file', () => existsSync(join(folder, '.ingest', 'warehouse.db')));
    const mode = (name: string): number => statSync(join(folder, '.ingest', name)).mode & 0o777;
    assert.deepEqual([mode('redis'), mode('warehouse.db')], [0o700, 0o600], 'only their owner reads bodies');
    const second = ingestRun(join(folder, '.ingest'), '127.0.0.1:0');
    assert.equal((await second.exited()).code, 1, second.output);
    assert.match(second.output, /another run uses \S+\.ingest: end it, or set INGEST_STATE_DIR/);

    const status = new Program('ingest-admin', { args: ['status', '--json'], cwd: folder });
    assert.equal(await status.ended, 0, status.output);
    const send = new Program('ingest-send', { args: ['--sample', '5'], cwd: folder });
    assert.equal(await send.ended, 0, send.output);
    run.signal('SIGTERM');
    await run.exited();
    const after = new Program('ingest-admin', { args: ['status'], cwd: folder });
    assert.equal(await after.ended, 2, after.output);
    assert.match(after.output, /INGEST_QUEUE_URI: is required/);
  });

  it('does not start a second Redis on the data of one that survived a killed run', async () => {
    const stateDir = temporaryFolder();
    const data = join(stateDir, 'redis');
    mkdirSync(data);
    const port = await freePort();
    const server = execFileSync(join(ROOT, 'bin/ensure-redis'), { encoding: 'utf8' }).trim();
    const redis = new TestProcess(server, ['--bind', '127.0.0.1', '--port', `${port}`, '--dir', data], {});
    await redis.line(/Ready to accept connections/);
    writeFileSync(join(stateDir, 'run.json'), JSON.stringify({ INGEST_QUEUE_URI: `redis://127.0.0.1:${port}` }));
    const run = ingestRun(stateDir, '127.0.0.1:0');
    assert.equal((await run.exited()).code, 1, run.output);
    assert.match(run.output, /the Redis of an earlier run still uses/);
  });

  it('starts although another program has the port of the Redis of an earlier run, and does not answer', async () => {
    const silent = createServer((socket) => socket.resume()).listen(0, '127.0.0.1');
    atEnd(() => void silent.close());
    await once(silent, 'listening');
    const stateDir = temporaryFolder();
    const uri = `redis://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    writeFileSync(join(stateDir, 'run.json'), JSON.stringify({ INGEST_QUEUE_URI: uri }), { mode: 0o600 });
    const run = ingestRun(stateDir, '127.0.0.1:0');
    await run.line(/Ctrl-C ends everything/);
    run.signal('SIGTERM');
    assert.deepEqual(await run.exited(), { code: 0, signal: null }, run.output);
  });

  it("stops all parts and exits with the gateway's code if the gateway cannot start", async () => {
    const run = ingestRun(temporaryFolder(), 'nowhere');
    assert.deepEqual(await run.exited(), { code: 2, signal: null }, run.output);
    assert.match(run.output, /INGEST_GATEWAY_ADDR="nowhere"/);
    assert.match(run.output, /ingest-gateway ended \(2\); ending the rest/);
  });
});

describe('bin/ensure-command', () => {
  it('installs while another caller does', async () => {
    const commands = ['hello', 'figlet', 'toilet'];
    execFileSync('apt-get', ['remove', '-y', '-qq', '-o', 'DPkg::Lock::Timeout=300', ...commands], { stdio: 'ignore' });
    const ensure = (command: string) => promisify(execFile)(join(ROOT, 'bin/ensure-command'), [command, command]);
    const found = await Promise.all(commands.map(ensure));
    assert.deepEqual(
      found.map(({ stdout }) => stdout),
      commands.map((command) => `/usr/bin/${command}\n`),
    );
  });
});

describe('make dev-cert', () => {
  it('makes a certificate for another producer', async () => {
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
});

describe('make dev', () => {
  it('restarts the gateway and the consumer when a file changes, and ends them when it is stopped', async () => {
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
  });
});
