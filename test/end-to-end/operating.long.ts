// What an operator sees of programs: two gateways on one port, a Redis Cluster behind the wrong scheme, and what
// --check=connect finds. The rest is in operating.test.ts.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { event, GATEWAY, PATIENT, TestGateway, TestProcess } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { startPostgres } from '../support/postgres.ts';
import { Program } from '../support/program.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/scope.ts';

let redis: TestRedis;
let pki: Pki;
let shop: ClientCertificate;

before(async () => {
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  shop = await pki.producer('shop');
});

describe('two gateways with INGEST_GATEWAY_REUSE_PORT=1', () => {
  it('share one port, and each takes events while the other is gone', async () => {
    const env = { ...PATIENT, INGEST_GATEWAY_REUSE_PORT: '1', INGEST_GATEWAY_ADDR: `127.0.0.1:${await freePort()}` };
    const [one, two] = [await TestGateway.start(redis, pki, env), await TestGateway.start(redis, pki, env)];
    assert.equal(one.port, two.port);
    one.signal('SIGTERM');
    assert.equal((await one.exited()).code, 0);
    assert.equal((await two.client(shop).post(event('shared-port'))).status, 202);
    const third = new TestProcess(GATEWAY, [], {
      ...env,
      ...pki.environment,
      INGEST_QUEUE_URI: redis.uri,
      INGEST_GATEWAY_REUSE_PORT: '0',
    });
    assert.equal((await third.exited()).code, 3, 'without the key the port is taken');
  });
});

describe('a node of a Redis Cluster behind redis://', () => {
  it('ends the start of gateway and consumer with 4, naming the right scheme', async () => {
    const cluster = await TestRedis.start(['--cluster-enabled', 'yes', '--cluster-port', String(await freePort())]);
    const env = { INGEST_QUEUE_URI: cluster.uri, INGEST_WAREHOUSE_URI: 'sqlite:unused' };
    for (const [name, args] of [
      ['ingest-gateway', []],
      ['ingest-consumer', []],
      ['ingest-gateway', ['--check=connect']],
      ['ingest-consumer', ['--check=connect']],
    ] as const) {
      const program = new Program(name, { env: { ...env, ...pki.environment }, args });
      assert.equal(await program.ended, 4, program.output);
      assert.match(program.output, /this is a Redis Cluster: use redis\+cluster:\/\//);
    }
  });
});

describe('--check=connect', () => {
  const check = async (name: 'ingest-gateway' | 'ingest-consumer', env: Readonly<Record<string, string>>) => {
    const program = new Program(name, { env: { ...pki.environment, ...env }, args: ['--check=connect'] });
    return { code: await program.ended, output: program.output };
  };

  it('says what it found of queue and warehouse, and exits 0', async (t) => {
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
