import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { queueAndProducer } from '../support/file-gateway.ts';
import { event, GATEWAY, TestGateway, TestProcess } from '../support/gateway.ts';
import { Program } from '../support/program.ts';
import { freePort } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';

const { redis, pki, producer: shop } = await queueAndProducer('shop');

async function adminUrl(gateway: TestProcess): Promise<string> {
  return /(http:\/\/[^"]+)/.exec(await gateway.line(/process endpoints on http:/))?.[1] ?? '';
}

describe('the process endpoints on a separate address', () => {
  it('whose address is in use end the start with exit code 3 and name the setting', { tags: ['long'] }, async () => {
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
  it('reports that it is draining and accepts connections for INGEST_DRAIN_DELAY_MS', { tags: ['long'] }, async () => {
    const delayMs = 8_000;
    const gateway = await TestGateway.start(redis, pki, {
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

describe('the log', () => {
  it('is text on a terminal and JSON in a pipe', { tags: ['long'] }, async () => {
    const env = { INGEST_QUEUE_URI: redis.uri, INGEST_GATEWAY_ADDR: '127.0.0.1:0', ...pki.environment };
    const terminal = new TestProcess('script', ['-qefc', `exec ${GATEWAY}`, '/dev/null'], { ...env, NO_COLOR: '1' });
    assert.match(await terminal.line(/listening on/), /INFO {2}ingest-gateway listening on/);
    assert.match((await TestGateway.start(redis, pki)).output, /^\{"level":"info",.*"msg":"listening on/m);
  });
});

describe('--check=connect', () => {
  const check = async (name: 'ingest-gateway' | 'ingest-consumer', env: Readonly<Record<string, string>>) => {
    const program = new Program(name, { env: { ...pki.environment, ...env }, args: ['--check=connect'] });
    return { code: await program.ended, output: program.output };
  };

  it('exits with 2 for a wrong configuration, 4 without the queue, 5 without the warehouse, and never prints the password', async () => {
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
});
