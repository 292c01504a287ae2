import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readDispatcherConfig, type DispatcherConfig } from '../../lib/dispatcher/config.ts';
import { readConsumerConfig } from '../../lib/consumer/config.ts';
import { readGatewayConfig } from '../../lib/gateway/config.ts';

const QUEUES = { INGEST_DISPATCH_QUEUE_A_URI: 'redis://a:1', INGEST_DISPATCH_QUEUE_B_URI: 'rediss://b:2/3' };
const TLS = { INGEST_TLS_CERT: '/c', INGEST_TLS_KEY: '/k', INGEST_TLS_CLIENT_CA: '/a' };

type Env = Readonly<Record<string, string>>;

function config(env: Env = {}): DispatcherConfig {
  const read = readDispatcherConfig({ ...QUEUES, ...env });
  assert.ok(read.config !== undefined, read.report.problems.join('\n'));
  return read.config;
}

const problems = (env: Env): readonly string[] => readDispatcherConfig({ ...QUEUES, ...env }).report.problems;
const keys = (lines: readonly string[]): string[] => lines.map((line) => /^\w+/.exec(line)?.[0] ?? line);

describe("the dispatcher's configuration", () => {
  it('needs both queues, and has defaults for the rest', () => {
    const { address, adminAddress, queueUris, shedMs, tls } = config();
    assert.deepEqual(
      [address, adminAddress, queueUris, shedMs, tls],
      [
        { host: '127.0.0.1', port: 6380 },
        { host: '127.0.0.1', port: 9465 },
        ['redis://a:1', 'rediss://b:2/3'],
        200,
        undefined,
      ],
    );
    assert.deepEqual(keys(readDispatcherConfig({}).report.problems), Object.keys(QUEUES));
    assert.deepEqual(keys(problems({ INGEST_DISPATCH_QUEUE_A_URI: 'dispatcher://c:1' })), [
      'INGEST_DISPATCH_QUEUE_A_URI',
    ]);
  });

  it('may have queues behind Sentinel and on a Redis Cluster, whose partitions it counts', () => {
    const uris = {
      INGEST_DISPATCH_QUEUE_A_URI: 'rediss+sentinel://s1:1,s2:2/main',
      INGEST_DISPATCH_QUEUE_B_URI: 'redis+cluster://n1:1,n2:2',
    };
    const made = config({ ...uris, INGEST_QUEUE_PARTITIONS: '5', INGEST_QUEUE_REPLICAS: '1' });
    assert.deepEqual([made.queueUris, made.queuePartitions, made.queueReplicas], [Object.values(uris), 5, 1]);
    assert.deepEqual(keys(problems({ INGEST_QUEUE_PARTITIONS: '5' })), ['INGEST_QUEUE_PARTITIONS']);
    const [problem = ''] = problems({ INGEST_DISPATCH_QUEUE_B_URI: 'redis+sentinel://s1:1,s2:2' });
    assert.match(problem, /^INGEST_DISPATCH_QUEUE_B_URI=.*the name of the master/);
  });

  it('has no place for credentials of its own', () => {
    for (const uri of [
      'redis://user:secret@a:1',
      'rediss://:secret@a:1',
      'redis://user@a:1',
      'redis+cluster://user:secret@a:1,b:2',
    ]) {
      const [problem = ''] = problems({ INGEST_DISPATCH_QUEUE_A_URI: uri });
      assert.match(problem, /^INGEST_DISPATCH_QUEUE_A_URI=.*expected no user and no password/);
      assert.doesNotMatch(problem, /secret/);
    }
  });

  it('takes its TLS files together, and then needs the names of the gateways', () => {
    const names = { INGEST_DISPATCH_CLIENTS: ' gateway-1 gateway-2, urn:gateway:3' };
    assert.deepEqual(config({ ...TLS, ...names }).tls, {
      cert: '/c',
      key: '/k',
      clientCa: '/a',
      clients: ['gateway-1', 'gateway-2', 'urn:gateway:3'],
    });
    assert.deepEqual(keys(problems(TLS)), ['INGEST_DISPATCH_CLIENTS']);
    assert.deepEqual(keys(problems({ ...TLS, INGEST_DISPATCH_CLIENTS: ' , ' })), ['INGEST_DISPATCH_CLIENTS']);
    assert.deepEqual(keys(problems(names)), Object.keys(TLS));
    assert.deepEqual(keys(problems({ INGEST_TLS_CLIENT_CRL: '/r' })), Object.keys(TLS));
    assert.equal(config({ ...TLS, ...names, INGEST_TLS_CLIENT_CRL: '/r' }).tls?.clientCrl, '/r');
    for (const left of Object.keys(TLS)) {
      const others = Object.fromEntries(Object.entries(TLS).filter(([key]) => key !== left));
      const read = readDispatcherConfig({ ...QUEUES, ...others, ...names });
      assert.equal(read.config, undefined, left);
      assert.deepEqual(keys(read.report.problems), [left]);
      assert.match(read.report.problems.join(), /expected a PEM file: certificate, key and client CA are set together/);
      const [, alone = ''] = Object.entries(TLS).find(([key]) => key === left) ?? [];
      assert.deepEqual(keys(problems({ [left]: alone })).toSorted(), Object.keys(others).toSorted());
    }
  });

  it('takes plain connections on loopback alone, unless it is told otherwise', () => {
    for (const host of ['127.0.0.1', '127.8.9.1', '[::1]', 'localhost'])
      assert.deepEqual(problems({ INGEST_DISPATCH_ADDR: `${host}:1` }), []);
    for (const host of ['0.0.0.0', '10.0.0.1', '[::]', '127.0.0.1.example.com', 'localhost.example.com']) {
      const address = { INGEST_DISPATCH_ADDR: `${host}:1` };
      const [problem = '', ...more] = problems(address);
      assert.match(
        problem,
        /^INGEST_DISPATCH_ADDR=.*expected a loopback address, TLS files, or INGEST_DISPATCH_PLAINTEXT=1/,
      );
      assert.deepEqual(more, []);
      assert.deepEqual(problems({ ...address, INGEST_DISPATCH_PLAINTEXT: '1' }), []);
      assert.deepEqual(keys(problems({ ...address, INGEST_DISPATCH_PLAINTEXT: '0' })), ['INGEST_DISPATCH_ADDR']);
      assert.deepEqual(problems({ ...address, ...TLS, INGEST_DISPATCH_CLIENTS: 'gateway-1' }), []);
    }
    assert.deepEqual(keys(problems({ ...TLS, INGEST_DISPATCH_ADDR: '0.0.0.0:1' })), ['INGEST_DISPATCH_CLIENTS']);
  });

  it('waits for its queues less long than gateways wait for it', () => {
    assert.deepEqual(keys(problems({ INGEST_SHED_MS: '150', INGEST_ENQUEUE_TIMEOUT_MS: '150' })), ['INGEST_SHED_MS']);
    assert.equal(config({ INGEST_SHED_MS: '149', INGEST_ENQUEUE_TIMEOUT_MS: '150' }).shedMs, 149);
  });
});

describe("a gateway's configuration with a dispatcher", () => {
  const of = (env: Env) => readGatewayConfig({ INGEST_QUEUE_URI: 'dispatcher://d:6380', ...env });

  it('waits 100 ms longer than the dispatcher does, unless it says how long', () => {
    assert.equal(of({}).config?.enqueueTimeoutMs, 300);
    assert.equal(of({ INGEST_SHED_MS: '50' }).config?.enqueueTimeoutMs, 150);
    assert.equal(of({ INGEST_ENQUEUE_TIMEOUT_MS: '201' }).config?.enqueueTimeoutMs, 201);
    for (const uri of ['dispatcher://d', 'dispatchers://u:p@[::1]:1']) {
      const { report } = of({ INGEST_QUEUE_URI: uri, INGEST_ENQUEUE_TIMEOUT_MS: '200' });
      assert.match(
        report.problems.join(),
        /^INGEST_SHED_MS="200": expected less than INGEST_ENQUEUE_TIMEOUT_MS \(200\)/,
      );
    }
  });

  it('is not bound by that rule without one', () => {
    const { config: plain } = of({ INGEST_QUEUE_URI: 'redis://q', INGEST_SHED_MS: '200' });
    assert.equal(plain?.enqueueTimeoutMs, 150);
  });

  it('names no database', () => {
    assert.match(
      of({ INGEST_QUEUE_URI: 'dispatcher://d:6380/2' }).report.problems.join(),
      /^INGEST_QUEUE_URI=.*no path/,
    );
  });

  it('is none for a consumer, who reads the queues themselves', () => {
    const { report } = readConsumerConfig({ INGEST_QUEUE_URI: 'dispatcher://d', INGEST_WAREHOUSE_URI: 'sqlite:x' });
    assert.match(report.problems.join(), /^INGEST_QUEUE_URI=.*expected the queues themselves/);
  });
});
