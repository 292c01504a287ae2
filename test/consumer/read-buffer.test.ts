import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Intake, READS_AT_ONCE, readEntriesMax } from '../../lib/consumer/read-buffer.ts';
import type { Entered } from '../../lib/consumer/classify.ts';

const MIB = 1 << 20;

function entries(count: number, bodyBytes: number, first = 0): Entered[] {
  const about = { source: 'q/s', id: 'i', type: 't', producer: 'shop', acceptedAtMs: 0, body: Buffer.alloc(bodyBytes) };
  return Array.from({ length: count }, (_, at) => ({ ...about, readMs: 0, entry: `${first + at}-0` }));
}

async function settles(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  void promise.then(() => (settled = true));
  await turn();
  return settled;
}

const opened = (wanted: number, entriesMax: number): Intake =>
  new Intake({ streams: 1, wanted, readMax: () => entriesMax });

describe('the intake', () => {
  it('has room for two batches, including entries that are being read', async () => {
    const intake = opened(200, 100);
    for (let reads = 0; reads < 3; reads += 1) intake.add(entries(100, 300), await intake.reserve());
    assert.equal(await intake.reserve(), 100);
    const fifth = intake.reserve();
    assert.equal(await settles(fifth), false);
    await intake.take();
    assert.equal(await fifth, 100);
  });

  it('makes reads smaller for large bodies, and holds 4 MiB of bodies', async () => {
    const intake = opened(2_000, 500);
    intake.add(entries(100, MIB / 4), await intake.reserve());
    const next = intake.reserve();
    assert.equal(await settles(next), false, '25 MiB wait');
    await intake.take();
    assert.equal(await next, 4);
    intake.add(entries(4, MIB / 4), 4);
    let waiting = 4;
    for (;;) {
      const reserving = intake.reserve();
      if (!(await settles(reserving))) break;
      const reserved = await reserving;
      intake.add(entries(reserved, MIB / 4), reserved);
      waiting += reserved;
    }
    assert.equal(waiting, 16);
  });

  it('reads one entry after the queue failed, and doubles full reads', async () => {
    const intake = opened(10_000, 30);
    const read = async (): Promise<number> => {
      const entriesMax = await intake.reserve(!intake.backlog);
      intake.add(entries(entriesMax, 300), entriesMax);
      return entriesMax;
    };
    const sizes = [await read()];
    intake.slow();
    assert.equal(intake.readMax(120), 1, 'a read that failed is repeated');
    for (let reads = 0; reads < 6; reads += 1) sizes.push(await read());
    assert.deepEqual(sizes, [120, 1, 2, 4, 8, 16, 30]);
  });

  // If an unused reservation were not released, reading and landing would wait for each other.
  it('continues to read when small bodies follow large ones', async () => {
    const intake = opened(2_000, 500);
    intake.add(entries(500, 2_250), await intake.reserve());
    intake.add(entries(466, 2_250), await intake.reserve());
    const reserved = await intake.reserve();
    const next = intake.reserve();
    assert.equal(await settles(next), false);
    intake.add(entries(reserved, 100), reserved);
    assert.equal(await next, 500);
  });
});

it('the entries of one read fit into the limit of all streams even if all bodies have the maximum length', () => {
  for (const [bytes, streams, entries] of [
    [300, 1, 64],
    [256 << 10, 1, 40],
    [512 << 10, 1, 20],
    [256 << 10, 4, 10],
    [4 * MIB, 1, 12],
    [64 * MIB, 1, 12],
    [undefined, 1, 12],
    [4 * MIB, 8, 2],
    [undefined, 256, 1],
  ] as const) {
    assert.equal(readEntriesMax(bytes, streams), entries, `${bytes} bytes, ${streams} streams`);
    if (bytes !== undefined && bytes < MIB) assert.ok(READS_AT_ONCE * streams * entries * bytes <= 40 * MIB);
  }
});
