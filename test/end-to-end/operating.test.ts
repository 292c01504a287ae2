// What an operator sees of a gateway: process endpoints of their own, the log's formats, what was refused, how it
// stops, and how --check=connect ends.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { event, GATEWAY, PATIENT, TestGateway, TestProcess } from '../support/gateway.ts';
import { revision, version } from '../../lib/process/program.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { startPostgres } from '../support/postgres.ts';

let redis: TestRedis;
let pki: Pki;
let shop: ClientCertificate;

before(async () => {
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  shop = await pki.producer('shop');
});

type Line = Readonly<Record<string, unknown>>;
const parsed = (lines: readonly string[]): Line[] =>
  lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Line);

/** The URL of the gateway's own process endpoints. */
async function adminUrl(gateway: TestProcess): Promise<string> {
  return /(http:\/\/[^"]+)/.exec(await gateway.line(/process endpoints on http:/))?.[1] ?? '';
}

describe('the process endpoints on an address of their own', () => {
  it("are plain HTTP, tell what the ones on the producers' address tell, and know no event", async () => {
    const gateway = await TestGateway.start(redis, pki, { INGEST_ADMIN_ADDR: '127.0.0.1:0' });
    const url = await adminUrl(gateway);
    const client = gateway.client();
    for (const path of ['/health/live', '/health/ready']) {
      const here = await fetch(url + path, { headers: { 'X-Request-Id': 'mine' } });
      const there = await client.ask({ path });
      assert.deepEqual([here.status, await here.json()], [there.status, there.json], path);
      assert.equal(here.headers.get('x-request-id'), 'mine');
    }
    const metrics = await (await fetch(`${url}/metrics`)).text();
    assert.match(metrics, /^ingest_queue_available 1$/m);
    assert.match(
      metrics,
      new RegExp(`^ingest_build_info\\{version="[\\d.]+",revision="\\w+",node="${process.version}"\\} 1$`, 'm'),
    );
    const posted = await fetch(`${url}/events`, { method: 'POST', body: event('plain') });
    assert.equal(posted.status, 404);
    const problem = (await posted.json()) as Line;
    assert.deepEqual([problem['code'], problem['retryable']], ['ROUTE_NOT_FOUND', false]);
    const head = await fetch(`${url}/metrics`, { method: 'DELETE' });
    assert.deepEqual([head.status, head.headers.get('allow')], [405, 'GET, HEAD']);
  });

  it('are the only ones with INGEST_ADMIN_ONLY=1', { tags: ['long'] }, async () => {
    const gateway = await TestGateway.start(redis, pki, {
      ...PATIENT,
      INGEST_ADMIN_ADDR: '127.0.0.1:0',
      INGEST_ADMIN_ONLY: '1',
    });
    const url = await adminUrl(gateway);
    for (const path of ['/health/live', '/health/ready', '/metrics']) {
      const { status, json } = await gateway.client().ask({ path });
      assert.deepEqual([status, json?.['code']], [404, 'ROUTE_NOT_FOUND'], path);
      assert.equal((await fetch(url + path)).status, 200, path);
    }
    assert.equal((await gateway.client(shop).post(event('admin-only'))).status, 202);
  });

  it('whose address is taken end the start with 3 and name the key', { tags: ['long'] }, async () => {
    const owner = await TestGateway.start(redis, pki, { INGEST_ADMIN_ADDR: '127.0.0.1:0' });
    const address = (await adminUrl(owner)).replace('http://', '');
    const second = new TestProcess(GATEWAY, [], {
      INGEST_QUEUE_URI: redis.uri,
      INGEST_GATEWAY_ADDR: '127.0.0.1:0',
      INGEST_ADMIN_ADDR: address,
      ...pki.environment,
    });
    assert.equal((await second.exited()).code, 3);
    assert.match(second.output, new RegExp(`INGEST_ADMIN_ADDR=${address}: cannot be bound \\(EADDRINUSE\\)`));
  });
});

describe('a gateway that stops', () => {
  it('says that it is draining, and takes connections, for INGEST_DRAIN_DELAY_MS', { tags: ['long'] }, async () => {
    // For three requests and a handshake, on a busy machine.
    const delayMs = 8_000;
    const gateway = await TestGateway.start(redis, pki, {
      ...PATIENT,
      INGEST_ADMIN_ADDR: '127.0.0.1:0',
      INGEST_DRAIN_TIMEOUT_MS: '60000',
      INGEST_DRAIN_DELAY_MS: String(delayMs),
    });
    const url = await adminUrl(gateway);
    const startMs = performance.now();
    gateway.signal('SIGTERM');
    await eventually('it is draining', async () => (await fetch(`${url}/health/ready`)).status === 503);
    assert.deepEqual(await (await fetch(`${url}/health/ready`)).json(), { status: 'draining' });
    assert.equal((await gateway.client(shop).post(event('while-draining'))).status, 202);
    assert.equal((await gateway.exited()).code, 0);
    assert.ok(performance.now() - startMs >= delayMs, 'it listened for the whole delay');
  });
});

describe('a refused request', () => {
  it('is a line of its own at debug, with the reason and without the body', { tags: ['long'] }, async () => {
    const gateway = await TestGateway.start(redis, pki, { INGEST_LOG_LEVEL: 'debug' });
    await gateway.client(shop).post('{"id":"x","secret":"hunter2"}', { 'X-Request-Id': 'mine' });
    await gateway.line(/"requestId":"mine"/);
    const line = parsed(gateway.lines).find(({ requestId }) => requestId === 'mine');
    const { producer, route, status, code, detail, level, address } = line ?? {};
    assert.deepEqual(
      { producer, route, status, code, level },
      { producer: 'urn:test:producer:shop', route: '/events', status: 400, code: 'INVALID_EVENT', level: 'debug' },
    );
    assert.equal(address, '127.0.0.1');
    assert.equal(typeof detail, 'string');
    await gateway.client().post(event('nobody'), { 'X-Request-Id': 'anonymous' });
    await gateway.line(/"requestId":"anonymous"/);
    assert.equal(parsed(gateway.lines).find(({ requestId }) => requestId === 'anonymous')?.['producer'], undefined);
    await gateway.client(shop).post(event('good'), { 'X-Request-Id': 'accepted' });
    assert.doesNotMatch(gateway.output, /hunter2/, 'no body');
  });

  it('is counted at info: one line at once for a producer and code, and the rest in one line later', async () => {
    const gateway = await TestGateway.start(redis, pki);
    const client = gateway.client(shop);
    for (let n = 0; n < 5; n += 1) await client.post('no event');
    await client.find('unknown');
    gateway.signal('SIGTERM');
    await gateway.exited();
    const told = parsed(gateway.lines)
      .filter(({ msg }) => msg === 'requests refused')
      .map(({ producer, code, count }) => [producer, code, count]);
    assert.deepEqual(told, [
      ['urn:test:producer:shop', 'INVALID_EVENT', 1],
      ['urn:test:producer:shop', 'EVENT_NOT_FOUND', 1],
      ['urn:test:producer:shop', 'INVALID_EVENT', 4],
    ]);
  });
});

describe('the log', () => {
  it('begins with a line that says what runs, on which node, and how it is set', async () => {
    const gateway = await TestGateway.start(redis, pki);
    const { settings, ...line } = parsed(gateway.lines)[0] ?? {};
    assert.deepEqual(
      [line['msg'], line['version'], line['revision'], line['node']],
      ['starting', version(), revision(), process.version],
    );
    assert.equal((settings as Line)['INGEST_QUEUE_URI'], redis.uri);
  });

  it('is text for people with INGEST_LOG_FORMAT=text', { tags: ['long'] }, async () => {
    const gateway = await TestGateway.start(redis, pki, { INGEST_LOG_FORMAT: 'text' });
    assert.match(
      await gateway.line(/listening on/),
      /^\d{4}-\d\d-\d\dT[\d:.]+Z INFO {2}ingest-gateway listening on https:\/\/127\.0\.0\.1:\d+$/,
    );
  });

  it('is text on a terminal and JSON in a pipe', { tags: ['long'] }, async () => {
    const env = { INGEST_QUEUE_URI: redis.uri, INGEST_GATEWAY_ADDR: '127.0.0.1:0', ...pki.environment };
    const terminal = new TestProcess('script', ['-qefc', `exec ${GATEWAY}`, '/dev/null'], { ...env, NO_COLOR: '1' });
    assert.match(await terminal.line(/listening on/), /INFO {2}ingest-gateway listening on/);
    assert.match((await TestGateway.start(redis, pki)).output, /^\{"level":"info",.*"msg":"listening on/m);
  });

  it('names all files that cannot be used at once', { tags: ['long'] }, async () => {
    const notPem = join(temporaryFolder(), 'ca.pem');
    writeFileSync(notPem, 'no PEM');
    const child = new TestProcess(GATEWAY, [], {
      INGEST_QUEUE_URI: redis.uri,
      INGEST_TLS_CERT: '/nowhere/cert.pem',
      INGEST_TLS_KEY: '/nowhere/key.pem',
      INGEST_TLS_CLIENT_CA: notPem,
      INGEST_TOKEN_JWKS: '/nowhere/jwks.json',
      INGEST_PRODUCERS_FILE: '/nowhere/producers.json',
    });
    assert.equal((await child.exited()).code, 2);
    const told = parsed(child.lines.filter((line) => line.includes('"fatal"'))).map(
      ({ msg }) => /^INGEST_\w+/.exec(String(msg))?.[0],
    );
    const tls = ['INGEST_TLS_CERT', 'INGEST_TLS_KEY', 'INGEST_TLS_CLIENT_CA'];
    assert.deepEqual(told, [...tls, 'INGEST_TOKEN_JWKS', 'INGEST_PRODUCERS_FILE']);
  });
});

describe('--check=connect', () => {
  const check = async (name: 'ingest-gateway' | 'ingest-consumer', env: Readonly<Record<string, string>>) => {
    const program = new Program(name, { env: { ...pki.environment, ...env }, args: ['--check=connect'] });
    return { code: await program.ended, output: program.output };
  };

  it('exits 2 for a wrong configuration, 4 without the queue, 5 without the warehouse, each without the password', async () => {
    const away = `127.0.0.1:${await freePort()}`;
    const cases = [
      [{ INGEST_QUEUE_URI: 'u:hunter2@queue' }, 2, /INGEST_QUEUE_URI/],
      [{ INGEST_QUEUE_URI: `redis://u:hunter2@${away}` }, 4, /INGEST_QUEUE_URI=redis:\/\/u:\*\*\*@.*ECONNREFUSED/],
      [
        { INGEST_QUEUE_URI: redis.uri, INGEST_WAREHOUSE_URI: `postgres://u:hunter2@${away}/d` },
        5,
        /INGEST_WAREHOUSE_URI=postgres:\/\/u:\*\*\*@.*ECONNREFUSED/,
      ],
    ] as const;
    await Promise.all(
      cases.map(async ([env, code, words]) => {
        const ended = await check('ingest-gateway', env);
        assert.equal(ended.code, code, ended.output);
        assert.match(ended.output, words);
        assert.doesNotMatch(ended.output, /hunter2/);
      }),
    );
  });

  it('says what it found of queue and warehouse, and exits 0', { tags: ['long'] }, async (t) => {
    const postgres = await startPostgres();
    t.after(() => postgres.stop());
    const env = { INGEST_QUEUE_URI: redis.uri, INGEST_WAREHOUSE_URI: await postgres.freshDatabase() };
    for (const name of ['ingest-gateway', 'ingest-consumer'] as const) {
      const { code, output } = await check(name, env);
      assert.equal(code, 0, output);
      assert.match(output, /^queue redis:\/\/127\.0\.0\.1:\d+: (Redis|Valkey) \d\S*, \d+ events in the stream/m);
      assert.match(output, /^warehouse postgres:\/\/.*: answers$/m);
    }
    const { code, output } = await check('ingest-consumer', {
      ...env,
      INGEST_WAREHOUSE_URI: `sqlite:${temporaryFolder()}/yet.db`,
    });
    assert.deepEqual([code, /no file yet/.test(output)], [0, true], output);
  });
});
