import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RefusalLog } from '../../lib/gateway/refusal-log.ts';
import { keepingLog } from '../support/gateway-in-process.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

/** The fields of the lines that a log collects. */
function collecting() {
  const { log, lines } = keepingLog();
  return { log, fields: () => lines.map(({ level: _, msg: __, ...fields }) => fields) };
}

const refuse = (log: RefusalLog, producer: string | undefined, code = 'INVALID_EVENT'): void =>
  log.refused(producer, 400, code, { address: '127.0.0.1', clientCertificate: undefined });

describe('the log of refusals', () => {
  it('logs the first refusal of a pair immediately, and the others together after the interval', async () => {
    const { log, fields } = collecting();
    const clock = new VirtualClock();
    const refusals = new RefusalLog(log, clock);
    for (let n = 0; n < 10; n += 1) refuse(refusals, 'shop');
    for (const producer of [undefined, 'shop']) refuse(refusals, producer, 'UNAUTHORIZED_PRODUCER');
    assert.deepEqual(fields(), [
      { producer: 'shop', address: '127.0.0.1', code: 'INVALID_EVENT', count: 1 },
      { producer: undefined, address: '127.0.0.1', code: 'UNAUTHORIZED_PRODUCER', count: 1 },
      { producer: 'shop', address: '127.0.0.1', code: 'UNAUTHORIZED_PRODUCER', count: 1 },
    ]);
    await clock.advance(59_999);
    assert.equal(fields().length, 3);
    await clock.advance(1);
    assert.deepEqual(fields().slice(3), [{ producer: 'shop', address: '127.0.0.1', code: 'INVALID_EVENT', count: 9 }]);
    refusals.close();
    assert.equal(clock.pending, 0);
    assert.equal(fields().length, 4);
  });

  it('forgets a pair without a refusal for an interval, so that its next one is logged immediately', async () => {
    const { log, fields } = collecting();
    const clock = new VirtualClock();
    const refusals = new RefusalLog(log, clock);
    // Time before a refusal, and the lines at once and at the end of the interval.
    for (const [ms, lines] of [
      [0, 1],
      [55_000, 1],
      [60_000, 2],
      [65_000, 4],
    ] as const) {
      await clock.advance(ms);
      refuse(refusals, 'shop');
      assert.equal(fields().length, lines);
    }
    refusals.close();
  });

  it('keeps at most 1,000 pairs and counts further refusals under others', () => {
    const { log, fields } = collecting();
    const refusals = new RefusalLog(log, SYSTEM.clock);
    for (let n = 0; n < 5_000; n += 1) refuse(refusals, `producer-${n}`);
    assert.equal(fields().length, 1_001);
    assert.equal(fields().at(-1)?.['producer'], '(others)');
    refusals.close();
    assert.equal(
      fields().reduce((sum, { count }) => sum + Number(count), 0),
      5_000,
    );
  });
});

describe('the log of handshakes that failed', () => {
  it('has one line for each interval, with counts by reason and the addresses with most failures', async () => {
    const { log, fields } = collecting();
    const clock = new VirtualClock();
    const handshakes = new RefusalLog(log, clock);
    for (let at = 0; at < 12; at += 1) handshakes.handshakeFailed('reset', `10.0.0.${at}`);
    for (let at = 0; at < 3; at += 1) handshakes.handshakeFailed('timeout', '10.0.0.7');
    assert.equal(clock.pending, 1);
    await clock.advance(59_999);
    assert.deepEqual(fields(), []);
    await clock.advance(60_001);
    const [{ reasons, addresses, most } = {}, ...more] = fields();
    assert.deepEqual([reasons, addresses, more], [{ reset: 12, timeout: 3 }, 12, []], 'and nothing has failed since');
    const [first, ...others] = most as unknown[];
    assert.deepEqual([first, others.length], [{ address: '10.0.0.7', count: 4 }, 9]);
    handshakes.handshakeFailed('proxy_header', '10.0.0.1');
    await clock.advance(60_000);
    const { reasons: later, hint, addresses: one } = fields()[1] ?? {};
    assert.deepEqual([later, one], [{ proxy_header: 1 }, 1]);
    assert.match(String(hint), /version 2/);
    handshakes.close();
    assert.deepEqual([clock.pending, fields().length], [0, 2]);
  });

  it('keeps at most 1,000 addresses and counts further failures under others', () => {
    const { log, fields } = collecting();
    const handshakes = new RefusalLog(log, SYSTEM.clock);
    for (let at = 0; at < 3_000; at += 1) handshakes.handshakeFailed('reset', String(at));
    handshakes.close();
    assert.equal(fields()[0]?.['addresses'], 1_001);
    assert.deepEqual((fields()[0]?.['most'] as unknown[])[0], { address: '(others)', count: 2_000 });
  });
});
