import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { before, describe, it } from 'node:test';
import type { Submission } from '../../lib/ingest/queue.ts';
import type { LogLevel } from '../../lib/process/log.ts';
import { event, TestClient } from '../support/client.ts';
import { gatewayInProcess, keepingLog, type Line } from '../support/gateway-in-process.ts';
import { MemoryQueue, MemoryQueueStore } from '../support/memory-queue.ts';
import { Pki } from '../support/pki.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

/** A queue's answer takes this long on the gateway's clock. */
const TOOK_MS = 250;

describe("a gateway's log", () => {
  let pki: Pki;
  before(async () => void (pki = await Pki.create()));

  async function start(level: LogLevel) {
    const { log, lines } = keepingLog();
    const asked: string[] = [];
    log.isLevelEnabled = (one) => asked.push(one) > 0 && (level === 'debug' || one !== 'debug');
    let nowMs = 1_000;
    const queue = new (class extends MemoryQueue {
      override submit(submission: Submission): void {
        nowMs += TOOK_MS;
        super.submit(submission);
      }
    })(new MemoryQueueStore());
    const clock = { ...SYSTEM.clock, ms: () => nowMs };
    const { port, metrics } = await gatewayInProcess(pki, {}, { log, queue, clock });
    const find = (msg: string, more: Readonly<Record<string, unknown>> = {}): Partial<Line> | undefined =>
      lines.find((line) => line.msg === msg && Object.entries(more).every(([key, value]) => line[key] === value));
    return { lines, asked, find, port, metrics, shop: await pki.producer('shop') };
  }

  it('has a line for each answered request, with its duration, and each closed connection at debug', async () => {
    const { port, shop, find, metrics } = await start('debug');
    const client = new TestClient(port, pki.authority.certificate, shop, {});
    assert.equal((await client.post(event('one'), { 'X-Request-Id': 'mine' })).status, 202);
    const line = find('request answered', { requestId: 'mine' });
    const from = { producer: 'urn:test:producer:shop', address: '127.0.0.1' };
    assert.deepEqual(line, {
      ...{ level: 'debug', msg: 'request answered', requestId: 'mine', ...from },
      ...{ method: 'POST', target: '/events', status: 202, ms: TOOK_MS, traceparent: undefined },
    });
    const durations = await metrics.registry.metrics();
    assert.match(durations, /^ingest_http_request_duration_seconds_sum\{route="\/events"\} 0\.25$/m);
    assert.equal((await client.post('no event', { 'X-Request-Id': 'refused' })).status, 400);
    const { code, detail } = find('request answered', { requestId: 'refused', status: 400 }) ?? {};
    assert.equal(code, 'INVALID_EVENT');
    assert.match(String(detail), /not JSON/);
    client.close();
    await eventually('its end is a line', () => find('connection closed', from));
  });

  it('has no line for accepted requests at info, which do not even check the level', async () => {
    const { port, shop, lines, asked } = await start('info');
    const client = new TestClient(port, pki.authority.certificate, shop, {});
    const before = asked.length;
    for (const id of ['one', 'two']) assert.equal((await client.post(event(id))).status, 202);
    assert.deepEqual(lines, []);
    assert.equal(asked.length, before);
  });

  it("has the address of each refusal, and of a 401 the certificate's serial number and fingerprint", async () => {
    const { port, shop, find } = await start('info');
    const expired = await pki.producer('expired', { notAfter: new Date(Date.now() - 60_000) });
    const client = new TestClient(port, pki.authority.certificate, expired, {});
    assert.equal((await client.post(event('one'))).status, 401);
    const { serialNumber, fingerprint256 } = new X509Certificate(expired.cert);
    const { serial, fingerprint, address } = find('requests refused', { code: 'UNAUTHORIZED_PRODUCER' }) ?? {};
    assert.deepEqual({ serial, fingerprint }, { serial: serialNumber, fingerprint: fingerprint256 });
    assert.equal(address, '127.0.0.1');
    const known = new TestClient(port, pki.authority.certificate, shop, {});
    assert.equal((await known.post('no event')).status, 400);
    assert.deepEqual(find('requests refused', { code: 'INVALID_EVENT' }), {
      ...{ level: 'info', msg: 'requests refused', code: 'INVALID_EVENT', count: 1 },
      ...{ producer: 'urn:test:producer:shop', address: '127.0.0.1' },
    });
  });
});
