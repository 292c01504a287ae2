// How programs start, refuse to start, and check themselves.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { readGatewayConfig } from '../../lib/gateway/config.ts';
import { queueAndProducer } from '../support/file-gateway.ts';
import { event, GATEWAY, PATIENT, TestClient, TestGateway, TestProcess } from '../support/gateway.ts';
import { openLink } from '../support/link.ts';
import { OtlpReceiver } from '../support/otlp-receiver.ts';
import { Pipeline } from '../support/pipeline.ts';
import { Program, type ProgramName } from '../support/program.ts';
import { rule } from '../support/redis-rights.ts';
import { freePort, TestRedis, tlsArguments } from '../support/redis.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

type Env = Readonly<Record<string, string>>;

const { redis, pki, producer } = await queueAndProducer();
const BIN = new URL('../../bin/', import.meta.url).pathname;

const warehouse = (): Env => ({ INGEST_WAREHOUSE_URI: `sqlite:${temporaryFolder()}/warehouse.db` });
const common = (): Env => ({
  ...{ INGEST_QUEUE_URI: redis.uri, INGEST_STATE_DIR: temporaryFolder(), ...pki.environment },
  ...{ INGEST_GATEWAY_ADDR: '127.0.0.1:0', INGEST_CONSUMER_ADDR: '127.0.0.1:0' },
});

const started = (name: ProgramName, env: Env = {}, args: readonly string[] = []): Program =>
  new Program(name, { args, env: { ...common(), ...env } });

async function assertEnds(program: Program, code: number, words: RegExp): Promise<void> {
  assert.equal(await program.ended, code, program.output);
  assert.match(program.output, words);
  assert.doesNotMatch(program.output, /hunter2|listening on|\n {4}at /, 'no password, no stack, and it did not listen');
}

/** A server that accepts connections and never sends a byte. */
async function silentServer(): Promise<{ readonly uri: string; readonly asked: Promise<unknown> }> {
  const server = createServer();
  atEnd(() => void server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const uri = `redis://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { uri, asked: once(server, 'connection') };
}

describe('a gateway', () => {
  /** A PATH without the openssl program. */
  const path = temporaryFolder();
  for (const tool of ['sh', 'sed', 'dirname', 'readlink', 'id'])
    symlinkSync(execFileSync('sh', ['-c', `command -v ${tool}`], { encoding: 'utf8' }).trim(), join(path, tool));

  it('exits with 3 if an address is in use, and names the setting', async () => {
    const address = (await silentServer()).uri.slice('redis://'.length);
    await Promise.all(
      ['INGEST_GATEWAY_ADDR', 'INGEST_ADMIN_ADDR'].map((key) =>
        assertEnds(started('ingest-gateway', { [key]: address }), 3, new RegExp(`${key}=${address}.*EADDRINUSE`)),
      ),
    );
  });

  it('starts through a symbolic link, without openssl and without its warehouse, accepts events, and exits with 0 on SIGINT', async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'bin'));
    symlinkSync(GATEWAY, join(folder, 'bin', 'gateway'));
    const command = 'ulimit -n 200; cd "$1" && exec bin/gateway';
    const env = { ...common(), PATH: path, INGEST_WAREHOUSE_URI: 'postgres://nobody@127.0.0.1:1/none' };
    const program = new TestProcess('/bin/sh', ['-c', command, 'sh', folder], env);
    const line = await program.line(/"msg":"listening on https:\/\/127\.0\.0\.1:[1-9]\d*"/);
    const { pid, msg } = JSON.parse(line) as { pid: number; msg: string };
    assert.equal(pid, program.child.pid);
    await program.line(/"level":"warn".*INGEST_CONNECTIONS_MAX=10000: this process may open only 200 files/);
    await program.line(/"level":"warn".*the warehouse did not pass its check/);
    const client = new TestClient(Number(msg.split(':').at(-1)), pki.authority.certificate, producer);
    assert.equal((await client.post(event('without-a-warehouse'))).status, 202);
    assert.equal((await client.find('without-a-warehouse')).status, 503);
    program.signal('SIGINT');
    assert.deepEqual(await program.exited(), { code: 0, signal: null });
    assert.match(program.lines.at(-1) ?? '', /"msg":"stopped"/);
  });

  it('without openssl and without TLS files exits with 2, and names the package to install', async () => {
    const [INGEST_TLS_CERT, INGEST_TLS_KEY, INGEST_TLS_CLIENT_CA] = ['', '', ''];
    const program = started('ingest-gateway', { PATH: path, INGEST_TLS_CERT, INGEST_TLS_KEY, INGEST_TLS_CLIENT_CA });
    await assertEnds(program, 2, /INGEST_STATE_DIR=.*openssl was not found: install it/);
  });

  it('checks a required durability again after each reconnect', async () => {
    const [safe, unsafe] = await Promise.all([TestRedis.start(), TestRedis.start(['--appendonly', 'no'])]);
    const link = await openLink({ port: safe.port, host: '127.0.0.1' });
    atEnd(() => link.close());
    const env = { INGEST_QUEUE_DURABILITY: 'require' };
    const gateway = await TestGateway.start({ uri: `redis://127.0.0.1:${link.port}` }, pki, env);
    const client = gateway.client(producer);
    const moveTo = ({ port }: TestRedis): void => {
      link.cut();
      link.retarget({ port, host: '127.0.0.1' });
      link.mend();
    };
    for (const [at, id] of ['one', 'two'].entries()) {
      await eventually('it accepts', async () => (await client.post(event(id))).status === 202);
      moveTo(unsafe);
      const refusals = (): number =>
        gateway.lines.filter((line) => /INGEST_QUEUE_DURABILITY=require: the append-only file is off/.test(line))
          .length;
      await eventually('it is refused', () => refusals() > at);
      assert.equal((await client.post(event('never'))).status, 503);
      assert.equal(await unsafe.length(), 0);
      moveTo(safe);
    }
  });

  it('that waits for its queue does not report success for an interrupted check', async () => {
    const { uri, asked } = await silentServer();
    const program = started('ingest-gateway', { INGEST_QUEUE_URI: uri }, ['--check=connect']);
    await asked;
    program.signal('SIGTERM');
    assert.equal(await program.ended, 143, program.output);
  });
});

it('a private authority of the servers is one setting of every program, and an unreadable file is refused', async () => {
  const tlsPort = await freePort();
  await TestRedis.start(['--tls-port', String(tlsPort), ...(await tlsArguments(pki))]);
  const missing = join(temporaryFolder(), 'missing.pem');
  const trials = [
    ['ingest-consumer', pki.path('ca.pem'), 0, /the configuration is good/],
    ['ingest-gateway', pki.path('ca.pem'), 0, /the configuration is good/],
    ['ingest-admin', pki.path('ca.pem'), 1, /^/],
    ['ingest-gateway', '', 4, /self-signed certificate|unable to (?:verify|get)/],
    ['ingest-consumer', missing, 2, new RegExp(`INGEST_TLS_SERVER_CA="${missing}": expected .*ENOENT`)],
  ] as const;
  await Promise.all(
    trials.map(([name, ca, code, words]) => {
      const env = { INGEST_QUEUE_URI: `rediss://127.0.0.1:${tlsPort}`, ...(name === 'ingest-consumer' && warehouse()) };
      const args = name === 'ingest-admin' ? ['tail', '-n', '1'] : ['--check=connect'];
      return assertEnds(started(name, { ...env, ...(ca !== '' && { INGEST_TLS_SERVER_CA: ca }) }, args), code, words);
    }),
  );
});

describe('SIGUSR1, which scripts that rotate logs send,', () => {
  it('opens no debugger from the start of a launcher', () => {
    const launchers = readdirSync(BIN).filter((name) => /^(ingest-[a-z]+|toollint)$/.test(name));
    assert.equal(launchers.length, 5);
    for (const name of launchers)
      assert.match(readFileSync(join(BIN, name), 'utf8'), /^exec "\$here\/node" --disable-sigusr1 /m, name);
  });

  it('neither ends a program nor opens a debugger, also if npm starts it without a launcher', async () => {
    const files = ['--cert', pki.path('server.pem'), '--key', pki.path('server-key.pem'), '--ca', pki.path('ca.pem')];
    const trial = async (command: string, args: readonly string[], option?: string): Promise<void> => {
      const { uri, asked } = await silentServer();
      const given = option === undefined ? args : [...args, option, uri.replace('redis:', 'https:')];
      const program = new TestProcess(command, given, { ...common(), ...warehouse(), INGEST_QUEUE_URI: uri });
      await asked;
      program.signal('SIGUSR1');
      // Two signals become one if the program handles neither in between.
      const ending = setInterval(() => program.signal('SIGTERM'), 100);
      const { code } = await program.exited().finally(() => clearInterval(ending));
      assert.notEqual(code, null, program.output);
      assert.doesNotMatch(program.output, /Debugger/, given.join(' '));
    };
    await Promise.all([
      trial(join(BIN, 'ingest-consumer'), []),
      trial(process.execPath, [join(BIN, 'ingest-send.ts'), '--sample', '1', ...files], '--url'),
    ]);
  });
});

describe('under the documented rights of Redis users', () => {
  const uriOf = (user: string): string => `redis://${user}:secret@127.0.0.1:${redis.port}`;

  it('the check of a new version names what the users of the last release lack, and the changelog adds it', async () => {
    const [, newest = ''] = readFileSync(new URL('../../CHANGELOG.md', import.meta.url), 'utf8').split(/^## /m);
    const checked: string[] = [];
    for (const [, name = '', text = ''] of newest.matchAll(/^ +ACL SETUSER (\S+) (.+)$/gm)) {
      const rights = text.split(' ');
      assert.ok(rights.length > 0 && rights.every((right) => rule(name).includes(right)), `${name}: ${text}`);
      if (name !== 'ingest-gateway' && name !== 'ingest-consumer') continue;
      const less = rights.map((right) => right.replace('+', '-'));
      const env = { INGEST_QUEUE_URI: uriOf(name), ...(name === 'ingest-consumer' && warehouse()) };
      await redis.command('ACL', 'SETUSER', name, 'reset', ...rule(name), ...less);
      const lacks = new RegExp(`lacks rights.* ${rights[0]?.slice(1)} on `);
      const check = started(name, env, ['--check=connect']);
      await Promise.all([assertEnds(check, 4, lacks), assertEnds(started(name, env), 4, lacks)]);
      assert.doesNotMatch(check.output, /good/);
      await redis.command('ACL', 'SETUSER', name, ...rights);
      await assertEnds(started(name, env, ['--check=connect']), 0, /^queue .*\n[^]*the configuration is good/m);
      checked.push(name);
    }
    assert.deepEqual(checked, ['ingest-gateway', 'ingest-consumer']);
  });

  it('events are accepted, found, land, and leave the queue, and a stop exports the spans of them', async () => {
    for (const name of ['ingest-gateway', 'ingest-consumer'])
      await redis.command('ACL', 'SETUSER', name, 'reset', 'on', ...rule(name));
    await redis.command('ACL', 'LOG', 'RESET');
    await redis.command('DEL', 'ingest');
    await redis.command('XADD', 'ingest', String(Date.now() - 25 * 3_600_000), 'producer', 'p', 'body', event('old'));
    const [store, receiver] = [sqliteStore(), await OtlpReceiver.start()];
    const pipeline = await Pipeline.start({
      ...{ queueUri: uriOf('ingest-gateway'), warehouseUri: store.uri, replicas: 0 },
      env: { ...PATIENT, OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url },
    });
    const { program } = await pipeline.startConsumer({ INGEST_QUEUE_URI: uriOf('ingest-consumer') });
    assert.equal((await pipeline.post(event('one'))).status, 202);
    assert.equal((await pipeline.post(event('one'))).body['duplicate'], true);
    await eventually('both have landed', async () => (await store.count()) === 2);
    assert.equal((await pipeline.find('one')).status, 200);
    const trace = ['traceparent', '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'];
    await redis.command('XADD', 'ingest', '*', 'producer', 'p', 'body', event('traced'), ...trace);
    await eventually('it has landed', async () => (await store.count()) === 3);
    assert.equal((await pipeline.post('{}')).status, 400);
    for (const one of [program, pipeline.gateway]) {
      one.signal('SIGTERM');
      assert.equal(await one.ended, 0);
    }
    const spans = receiver.spans.map(({ service, name }) => `${service} ${name}`);
    assert.deepEqual(spans.toSorted(), ['ingest-consumer process ingest', 'ingest-gateway POST /events']);
    await pipeline.stop();
    assert.deepEqual(await redis.command('ACL', 'LOG'), [], 'nothing was refused');
  });
});

describe('--check', () => {
  it('exits with 2 for a wrong configuration, 4 without the queue, and 5 without the warehouse', async () => {
    const nobody = `u:hunter2@127.0.0.1:${await freePort()}`;
    const pipe = join(temporaryFolder(), 'pipe');
    execFileSync('mkfifo', [pipe]);
    const cases: readonly (readonly [Env, number, RegExp])[] = [
      [{ INGEST_QUEUE_URI: 'u:hunter2@queue' }, 2, /INGEST_QUEUE_URI/],
      [{ INGEST_WAREHOUSE_URI: `sqlite:${pipe}` }, 5, /INGEST_WAREHOUSE_URI=.*expected a regular file/],
      [
        { INGEST_WAREHOUSE_URI: `postgres://h/d?sslcert=${pipe}`, INGEST_PRODUCERS_FILE: pipe },
        2,
        /expected sslcert to name a readable regular file/,
      ],
      [{ INGEST_QUEUE_URI: `redis://${nobody}` }, 4, /INGEST_QUEUE_URI=redis:\/\/u:\*\*\*@.*ECONNREFUSED/],
      [{ INGEST_WAREHOUSE_URI: `postgres://${nobody}/d` }, 5, /INGEST_WAREHOUSE_URI=postgres:\/\/u:\*\*\*@.*REFUSED/],
    ];
    await Promise.all(
      cases.map(([env, ...wanted]) => assertEnds(started('ingest-gateway', env, ['--check=connect']), ...wanted)),
    );
  });

  it('of a gateway warns of settings that work together badly, and of a low limit on open files', () => {
    const producers = pki.write('producers.json', '{"producers":{"spiffe://shop/web":{"audience":["other"]}}}');
    const bad = {
      ...{ INGEST_BODY_BYTES_MAX: '2000', INGEST_IN_FLIGHT_BYTES_MAX: '1000', INGEST_PRODUCERS_FILE: producers },
      ...{ INGEST_GATEWAY_ADDR: '127.0.0.1:9', INGEST_ADMIN_ADDR: '127.0.0.1:9', INGEST_CONSUMER_ADDR: '127.0.0.1:9' },
      ...{ INGEST_PROXY_FROM: '10.0.0.0/8, 0.0.0.0/0, ::/0', INGEST_CONNECTIONS_MAX: '137' },
    };
    const env = { ...process.env, ...common(), ...bad };
    const command = ['-c', 'ulimit -n 200; exec "$0" --check 2>&1', GATEWAY];
    const warnings = execFileSync('sh', command, { encoding: 'utf8', env });
    for (const pattern of [
      /INGEST_BODY_BYTES_MAX \(2000\).*INGEST_IN_FLIGHT_BYTES_MAX \(1000\)/,
      /INGEST_ADMIN_ADDR and INGEST_GATEWAY_ADDR/,
      /INGEST_ADMIN_ADDR and INGEST_CONSUMER_ADDR/,
      /INGEST_PROXY_FROM=0\.0\.0\.0\/0/,
      /INGEST_PROXY_FROM=::\/0.*INGEST_CONNECTIONS_PER_ADDRESS_MAX/,
      /INGEST_PRODUCERS_FILE=.*spiffe:\/\/shop\/web.*INGEST_AUDIENCE/,
      /INGEST_CONNECTIONS_MAX=137: this process may open only 200 files/,
    ])
      assert.match(warnings, new RegExp(`warning: .*${pattern.source}`));
    const good = { INGEST_QUEUE_URI: redis.uri, INGEST_ADMIN_ADDR: '127.0.0.1:8', INGEST_PROXY_FROM: '10.0.0.0/8' };
    assert.deepEqual(readGatewayConfig({ ...good, ...pki.environment }).report.warnings, []);
  });
});
