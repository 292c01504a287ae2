import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { readGatewayConfig, type GatewayConfig } from '../../lib/gateway/config.ts';
import type { Environment } from '../../lib/process/read-settings.ts';
import { settingsOf } from '../../lib/process/settings.ts';

const QUEUE = { INGEST_QUEUE_URI: 'redis://127.0.0.1:6379' };
const TLS = { INGEST_TLS_CERT: '/c', INGEST_TLS_KEY: '/k', INGEST_TLS_CLIENT_CA: '/a' };

function config(environment: Environment = {}): GatewayConfig {
  const { config, report } = readGatewayConfig({ ...QUEUE, ...environment });
  assert.deepEqual(report, { problems: [], warnings: [] });
  assert.ok(config !== undefined);
  return config;
}

const problems = (environment: Environment): string =>
  readGatewayConfig({ ...QUEUE, ...environment }).report.problems.join('\n');

function problemKeys(environment: Environment): string[] {
  const { config, report } = readGatewayConfig(environment);
  assert.equal(config, undefined);
  return report.problems.map((line) => /^[A-Z_]+/.exec(line)?.[0] ?? line);
}

describe("the gateway's configuration", () => {
  it('limits one address to a quarter of all connections by default; 0 is no limit', () => {
    assert.equal(config({ INGEST_CONNECTIONS_MAX: '41' }).connectionsPerAddressMax, 11);
    assert.equal(config({ INGEST_CONNECTIONS_PER_ADDRESS_MAX: '0' }).connectionsPerAddressMax, 0);
  });

  it('warns of an address for two servers, also a default one, and not of a body that may be all that is in flight', () => {
    const { warnings } = readGatewayConfig({ ...QUEUE, INGEST_ADMIN_ADDR: '127.0.0.1:8443' }).report;
    assert.match(
      warnings.join(),
      /^INGEST_ADMIN_ADDR and INGEST_GATEWAY_ADDR are the same address, 127\.0\.0\.1:8443: /,
    );
    config({ INGEST_BODY_BYTES_MAX: '1000', INGEST_IN_FLIGHT_BYTES_MAX: '1000' });
  });

  it('requires token keys if it requires tokens or names their issuer', () => {
    for (const [key, value] of [
      ['INGEST_TOKEN_REQUIRED', '1'],
      ['INGEST_TOKEN_ISSUER', 'me'],
    ] as const) {
      assert.deepEqual(problemKeys({ ...QUEUE, [key]: value }), [key]);
      config({ [key]: value, INGEST_TOKEN_JWKS: '/jwks.json' });
    }
  });

  it('uses INGEST_SHED_MS as the timeout of a dispatcher, and checks the other times against it', () => {
    const queue = { INGEST_QUEUE_URI: 'dispatcher://a:1,b:1' };
    assert.equal(config({ ...TLS, ...queue }).enqueueTimeoutMs, 200);
    const { config: both, report } = readGatewayConfig({
      ...{ ...TLS, ...queue, INGEST_SHED_MS: '90', INGEST_ENQUEUE_TIMEOUT_MS: '80' },
    });
    assert.equal(both?.enqueueTimeoutMs, 90);
    assert.equal(report.warnings.length, 1);
    for (const [shed, drain, delay, key] of [
      ['10000', '20000', '', 'INGEST_SHED_MS'],
      ['300', '300', '', 'INGEST_DRAIN_TIMEOUT_MS'],
      ['300', '500', '200', 'INGEST_DRAIN_DELAY_MS'],
    ] as const) {
      const times = { INGEST_SHED_MS: shed, INGEST_DRAIN_TIMEOUT_MS: drain, INGEST_DRAIN_DELAY_MS: delay };
      assert.deepEqual(problemKeys({ ...queue, ...times }), [key]);
      assert.match(problems({ ...queue, ...times }), /INGEST_SHED_MS/);
    }
    assert.equal(problems({ ...queue, INGEST_ENQUEUE_TIMEOUT_MS: '3600000' }), '');
    assert.deepEqual(problemKeys({ INGEST_QUEUE_URI: 'dispatcher://h:1' }), ['INGEST_QUEUE_URI']);
  });

  it('has a member for every key', () => {
    const base = { ...TLS, INGEST_ADMIN_ADDR: '127.0.0.1:1', INGEST_TOKEN_JWKS: '/keys' };
    const texts = '/x 7 9000 1 0.0.0.0:7 10.0.0.1 https://x require debug source+id node'.split(' ');
    for (const [key, setting] of settingsOf('gateway')) {
      const queue = key === 'INGEST_SHED_MS' ? 'dispatcher://a,b' : 'redis+cluster://h';
      const environment = { ...base, INGEST_QUEUE_URI: queue };
      const unset = readGatewayConfig(environment);
      const changes = (value: string): boolean => {
        const { config, log, report } = readGatewayConfig({ ...environment, [key]: value });
        return report.problems.length === 0 && !isDeepStrictEqual([config, log], [unset.config, unset.log]);
      };
      assert.ok(('schemes' in setting ? ['sqlite:x', 'redis+cluster://x'] : texts).some(changes), key);
    }
  });

  it('makes development certificates on loopback only', () => {
    for (const host of ['127.0.0.1', '127.1.2.3', '[::1]', 'localhost']) {
      assert.deepEqual(config({ INGEST_GATEWAY_ADDR: `${host}:1` }).tls, { kind: 'development' });
    }
    for (const host of ['0.0.0.0', '[::]', '10.0.0.1', 'localhost.example', '128.0.0.1', 'gateway']) {
      assert.deepEqual(problemKeys({ ...QUEUE, INGEST_GATEWAY_ADDR: `${host}:1` }), Object.keys(TLS), host);
      assert.equal(config({ ...TLS, INGEST_GATEWAY_ADDR: `${host}:1` }).tls.kind, 'files');
    }
  });

  it('expects certificate, key and client CA together on any address', () => {
    const [cert, key, ca] = Object.keys(TLS) as [string, string, string];
    assert.deepEqual(problemKeys({ ...QUEUE, [cert]: '/c' }), [key, ca]);
    assert.deepEqual(problemKeys({ ...QUEUE, [cert]: '/c', [key]: '/k' }), [ca]);
    assert.deepEqual(problemKeys({ ...QUEUE, INGEST_TLS_CLIENT_CRL: '/r' }), [cert, key, ca]);
  });

  it('expects the deadlines in order: queue before request, queue before the drain', () => {
    const late = { INGEST_ENQUEUE_TIMEOUT_MS: '10000', INGEST_DRAIN_TIMEOUT_MS: '10001' };
    assert.deepEqual(problemKeys({ ...QUEUE, ...late }), ['INGEST_ENQUEUE_TIMEOUT_MS']);
    assert.deepEqual(problemKeys({ ...QUEUE, INGEST_DRAIN_TIMEOUT_MS: '150' }), ['INGEST_DRAIN_TIMEOUT_MS']);
    assert.equal(config({ INGEST_ENQUEUE_TIMEOUT_MS: '9999' }).enqueueTimeoutMs, 9_999);
    assert.equal(config({ INGEST_REQUEST_TIMEOUT_MS: '5000' }).headersTimeoutMs, 2_500);
    assert.equal(config({ INGEST_DRAIN_TIMEOUT_MS: '151' }).drainTimeoutMs, 151);
  });

  it('shortens the default drain delay to fit the drain, and refuses a set value that does not fit', () => {
    assert.equal(config({ INGEST_DRAIN_TIMEOUT_MS: '400' }).drainDelayMs, 100);
    assert.equal(config({ INGEST_DRAIN_DELAY_MS: '249', INGEST_DRAIN_TIMEOUT_MS: '400' }).drainDelayMs, 249);
    assert.equal(config({ INGEST_DRAIN_DELAY_MS: '0' }).drainDelayMs, 0);
    const long = { INGEST_DRAIN_DELAY_MS: '250', INGEST_DRAIN_TIMEOUT_MS: '400' };
    assert.deepEqual(problemKeys({ ...QUEUE, ...long }), ['INGEST_DRAIN_DELAY_MS']);
  });

  it('reads the balancers of the PROXY protocol as addresses and networks', () => {
    const from = (text: string) => ({ INGEST_PROXY_FROM: text });
    assert.equal(config({}).proxyFrom, undefined);
    const one = config(from('2001:db8::1')).proxyFrom;
    assert.deepEqual(
      ['2001:db8::1', '2001:db8::2'].map((address) => one?.check(address, 'ipv6')),
      [true, false],
    );
    const list = config(from('10.0.0.0/8, 192.0.2.1,fd00::/16')).proxyFrom;
    for (const [address, family, isIn] of [
      ['10.9.8.7', 'ipv4', true],
      ['::ffff:10.9.8.7', 'ipv6', true],
      ['192.0.2.1', 'ipv4', true],
      ['192.0.2.2', 'ipv4', false],
      ['fd01::1', 'ipv6', false],
      ['fd00::1', 'ipv6', true],
    ] as const)
      assert.equal(list?.check(address, family), isIn, address);
    for (const bad of ['10.0.0.0/33', 'fd00::/129', 'balancer', '10.0.0.0/8;::1', '10.0.0.0/', ',', 'fe80::1%eth0'])
      assert.match(problems(from(bad)), /INGEST_PROXY_FROM.*expected addresses or networks/, bad);
  });

  it('removes process endpoints from the address of producers only if they have another one', () => {
    const admin = { INGEST_ADMIN_ADDR: '127.0.0.1:9000', INGEST_ADMIN_ONLY: '1' };
    assert.deepEqual(config(admin).adminAddress, { host: '127.0.0.1', port: 9000 });
    assert.deepEqual(problemKeys({ ...QUEUE, INGEST_ADMIN_ONLY: '1' }), ['INGEST_ADMIN_ONLY']);
  });
});
