// A gateway's look at a warehouse that is unavailable at its start.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { warnOfWarehouse } from '../../lib/gateway/warehouse-watch.ts';
import { WarehouseMisconfigured } from '../../lib/ingest/warehouse.ts';
import { createLog } from '../../lib/process/log.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

/** What is logged of a warehouse whose probes end so, one a second, until the gateway drains after so many of them. */
async function logged(ends: readonly (Error | undefined)[], drainsAfter = Infinity): Promise<readonly unknown[]> {
  const lines: unknown[] = [];
  const log = createLog('test', 'error').child({}, { level: 'silent' });
  log.warn = (fields: object, text?: string) => void lines.push([fields, text]);
  log.info = (text: unknown) => void lines.push(text);
  const clock = new VirtualClock();
  let probes = 0;
  const probe = (): Promise<void> => {
    const end = ends[probes++];
    return end === undefined ? Promise.resolve() : Promise.reject(end);
  };
  let isOver = false;
  const over = warnOfWarehouse({ probe }, () => probes >= drainsAfter, log, clock).then(() => (isOver = true));
  for (let seconds = 0; seconds < 10 && !isOver; seconds += 1) await clock.advance(1_000);
  await over;
  assert.equal(probes, Math.min(ends.length, drainsAfter));
  return lines;
}

describe('what a gateway says of its warehouse', () => {
  it('is nothing where it answers', async () => {
    assert.deepEqual(await logged([undefined]), []);
  });

  it('is that it is unavailable, once, and that it is back', async () => {
    const away = new Error('no answer');
    assert.deepEqual(await logged([away, away, away, undefined]), [
      [{ reason: 'no answer' }, 'the warehouse is unavailable: look-ups fail'],
      'the warehouse is back',
    ]);
  });

  it('is that it cannot work, where it answers and is configured wrongly', async () => {
    assert.deepEqual(await logged([new WarehouseMisconfigured('no such role'), undefined]), [
      [{ reason: 'no such role' }, 'the warehouse cannot work as configured: look-ups fail'],
      'the warehouse is back',
    ]);
  });

  it('ends with the gateway', async () => {
    const away = new Error('no answer');
    assert.equal((await logged([away, away, away, away], 2)).length, 1);
  });
});
