import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectTcp } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { describe, it } from 'node:test';
import { Producers } from '../../lib/gateway/producers-file.ts';
import { loadTlsMaterial } from '../../lib/identity/tls-material.ts';
import type { TokenVerifier } from '../../lib/identity/token-verifier.ts';
import { event, RawConnection, TestClient, tlsOptions } from '../support/client.ts';
import { gatewayInProcess } from '../support/gateway-in-process.ts';
import { MemoryQueue, MemoryQueueStore } from '../support/memory-queue.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { askRaw, postText, requestText } from '../support/wire.ts';

const pki = await Pki.create();
const shop = await pki.producer('shop');

describe('a gateway that runs', () => {
  const clientOf = (port: number, certificate?: ClientCertificate): TestClient =>
    new TestClient(port, pki.authority.certificate, certificate, {});
  const raw = (port: number, certificate?: ClientCertificate): RawConnection =>
    new RawConnection(
      connectTls({ port, host: '127.0.0.1', ...tlsOptions(pki.authority.certificate, certificate, {}) }),
    );

  it('closes connections of clients that it no longer trusts, and logs their addresses', async () => {
    const { gateway, port, lines, files, metrics } = await gatewayInProcess(pki);
    await once(connectTcp(port, '127.0.0.1'), 'connect'); // Its handshake never begins.
    const [known, same, stranger] = [raw(port, shop), raw(port, shop), raw(port)];
    for (const one of [known, same]) assert.equal((await askRaw(one, postText(event('a')))).status, 202);
    const open = () => metrics.registry.getSingleMetricAsString('ingest_connections');
    await eventually('all are open', async () => /^ingest_connections 3$/m.test(await open()));
    const { authority } = await Pki.create();
    const clientCa = pki.write('other-ca.pem', authority.certificate);
    gateway.replaceTls(await loadTlsMaterial({ ...files, clientCa }, SYSTEM.clock.epochMs()));
    await known.untilClosed();
    const [warning, ...more] = lines.filter(({ level }) => level === 'warn');
    assert.deepEqual([warning?.['connections'], warning?.['addresses'], more], [2, ['127.0.0.1'], []]);
    await eventually('one is open', async () => /^ingest_connections 1$/m.test(await open()));
    assert.equal((await askRaw(stranger, requestText('GET /health/live'))).status, 200);
    assert.equal((await clientOf(port, shop).post(event('b'))).status, 401);
    const again = lines.length;
    const material = await loadTlsMaterial(files, SYSTEM.clock.epochMs());
    const ends = { cert: 500_000, crl: -500_000 };
    const nowMs = SYSTEM.clock.epochMs();
    const expiry = Object.entries(ends).map(([file, ms]) => ({ file, atMs: nowMs + ms }));
    await gateway.replaceTls({ ...material, expiry });
    assert.equal(lines.slice(again).filter(({ level }) => level === 'warn').length, 0, 'nobody was closed');
    const shown = await metrics.registry.getSingleMetricAsString('ingest_tls_certificate_expiry_seconds');
    assert.match(shown, /\{file="cert"\} (?:500|499)\n.*\{file="crl"\} -50\d\n?$/);
    assert.equal((await askRaw(raw(port, shop), postText(event('c')))).status, 202);
    await gateway.replaceTls(await loadTlsMaterial({ ...files, clientCa }, nowMs));
    assert.equal(lines.at(-1)?.['connections'], 1);
  });

  it('judges a producer again after a change of its rules', async () => {
    const without = await pki.producer('granted', { uris: ['urn:test:producer:granted'] });
    const rows = (producers: object): Producers => Producers.parse(JSON.stringify({ producers }));
    const grant = { 'urn:test:producer:granted': { audience: ['ingest-gateway'] } };
    const { gateway, port } = await gatewayInProcess(pki, {}, { producers: rows(grant) });
    const client = raw(port, without);
    assert.equal((await askRaw(client, postText(event('a')))).status, 202);
    assert.equal((await askRaw(client, postText(event('b')))).status, 202);
    gateway.replaceProducers(rows({}));
    assert.equal((await askRaw(client, postText(event('c')))).status, 403);
    assert.equal((await askRaw(client, requestText('GET /events/a'))).status, 403);
  });

  it('does not share its port by default', async () => {
    const { port } = await gatewayInProcess(pki);
    const { gateway } = await gatewayInProcess(pki, {}, { listens: false });
    await assert.rejects(gateway.listen('127.0.0.1', port), { code: 'EADDRINUSE' });
  });

  it('asks for a token if one may identify a producer, with its audience as the realm', async () => {
    const verifier = {} as TokenVerifier;
    const { port } = await gatewayInProcess(pki, { INGEST_AUDIENCE: String.raw`a"b\c` }, { verifier });
    const { status, headers } = await clientOf(port).post(event('a'));
    assert.equal(status, 401);
    assert.equal(headers['www-authenticate'], String.raw`Bearer realm="a\"b\\c"`);
    const sent = await clientOf(port).post(event('a'), { authorization: 'Bearer a.b.c' });
    assert.equal(sent.headers['www-authenticate'], `${headers['www-authenticate']}, error="invalid_token"`);
    const without = await clientOf((await gatewayInProcess(pki)).port).post(event('a'));
    assert.equal(without.headers['www-authenticate'], 'TLS-Client-Certificate realm="ingest-gateway"');
  });

  it('counts what it cannot read: plain HTTP, which it answers with a hint and logs, and an unreadable head', async () => {
    const { gateway, port, lines, metrics } = await gatewayInProcess(pki);
    const socket = connectTcp(port, '127.0.0.1');
    let received = '';
    socket.setEncoding('latin1').on('data', (text: string) => (received += text));
    socket.write('GET / HTTP/1.1\r\nHost: g\r\n\r\n');
    await once(socket, 'close');
    assert.match(received, /^HTTP\/1\.1 400 /);
    assert.match(received, /https/);
    assert.equal((await askRaw(raw(port), 'no request\r\n\r\n')).status, 400);
    const text = await metrics.registry.metrics();
    for (const sample of [
      'ingest_tls_handshake_failures_total{reason="not_tls"}',
      'ingest_http_requests_total{method="none",route="none",status="400"}',
      'ingest_errors_total{code="INVALID_EVENT"}',
    ])
      assert.ok(text.includes(`\n${sample} 1\n`), sample);
    await gateway.drain();
    const failed = lines.find(({ msg }) => msg === 'TLS handshakes or connections failed');
    assert.deepEqual(failed?.['reasons'], { not_tls: 1 });
  });

  it('accepts a Host that is a name or an address, with a port or without', async () => {
    const { port } = await gatewayInProcess(pki);
    for (const host of ['g', 'G-1.example:8443', '[::1]', '[::1]:443', 'g:'])
      assert.equal((await askRaw(raw(port), requestText('GET /health/live', [`Host: ${host}`]))).status, 200, host);
  });

  it('does not serve process endpoints to producers with INGEST_ADMIN_ONLY', async () => {
    const { port } = await gatewayInProcess(pki, { INGEST_ADMIN_ADDR: '127.0.0.1:1', INGEST_ADMIN_ONLY: '1' });
    for (const path of ['/metrics', '/health/live', '/health/ready'])
      assert.equal((await clientOf(port).ask({ path })).status, 404);
  });

  it('answers 500 after an exception, also before the body has arrived, and logs it', async () => {
    const fail = (): never => {
      throw new Error('a bug');
    };
    const queue = Object.assign(new MemoryQueue(new MemoryQueueStore()), { find: fail });
    const producers = { rulesFor: fail } as unknown as Producers;
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    const sent = { 'x-request-id': 'mine', traceparent };
    for (const [parts, ask] of [
      [{ queue }, { path: '/events/a', headers: sent }],
      [{ producers }, { path: '/events', method: 'POST', body: event('a'), headers: sent }],
    ] as const) {
      const { port, lines } = await gatewayInProcess(pki, {}, parts);
      const { status, json, headers } = await clientOf(port, shop).ask(ask);
      const wanted = [500, 'the gateway failed on this request', 'close'];
      assert.deepEqual([status, json?.['detail'], headers['connection']], wanted);
      const [{ err, ...line } = { err: undefined }, ...more] = lines.filter(({ level }) => level === 'error');
      assert.equal((err as Error).message, 'a bug');
      assert.deepEqual(line, { level: 'error', msg: 'a handler failed', requestId: 'mine', traceparent });
      assert.deepEqual(more, []);
    }
  });

  it('is ready once it listens, names unavailable partitions, and is not ready once its stop has begun', async () => {
    const queue = new MemoryQueue(new MemoryQueueStore());
    queue.states = () => [{ available: true }, { available: false, reason: 'away' }];
    const { gateway } = await gatewayInProcess(pki, {}, { queue, listens: false });
    assert.equal(gateway.state.unready(), 'not listening yet');
    assert.deepEqual([...gateway.state.unavailable()], [[1, 'away']]);
    const { port } = await gateway.listen('127.0.0.1', 0);
    assert.equal(gateway.state.unready(), undefined);
    const client = raw(port, shop);
    const ready = JSON.parse((await askRaw(client, requestText('GET /health/ready'))).body) as unknown;
    assert.deepEqual(ready, { status: 'ready', unavailable: [1], reasons: { 1: 'away' } });
    gateway.beginStop();
    const { status, body, headers } = await askRaw(client, requestText('GET /health/ready'));
    assert.deepEqual([status, body, headers['connection']], [503, '{"status":"draining"}', 'close']);
    await queue.close();
    assert.equal(gateway.state.unready(), 'closed');
    await gateway.drain();
  });

  it('logs the remaining refusals at its end, and ends every connection when it is destroyed', async () => {
    const { gateway, port, lines } = await gatewayInProcess(pki);
    const client = raw(port, shop);
    for (let at = 0; at < 3; at += 1) assert.equal((await askRaw(client, postText('{}'))).status, 400);
    const counts = (): readonly unknown[] =>
      lines.filter(({ msg }) => msg === 'requests refused').map(({ count }) => count);
    assert.deepEqual(counts(), [1]);
    const silent = connectTcp(port, '127.0.0.1');
    await once(silent, 'connect');
    const drained = gateway.drain();
    gateway.destroy();
    await Promise.all([drained, once(silent.resume(), 'close')]);
    assert.deepEqual(counts(), [1, 2]);
  });
});
