// What ingest-admin shows: numbers, tables, a look at queue and warehouse, the bar and the question.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Session } from '../../lib/admin/session.ts';
import { failureOf, look, lookJson, lookText, type Look } from '../../lib/admin/status.ts';
import { bytesText, counted, durationText, table } from '../../lib/admin/terminal.ts';
import { QueueFailed, type PartitionStatus, type QueueStatus } from '../../lib/ingest/queue-admin.ts';
import { WarehouseFailed, type WarehouseCounts } from '../../lib/ingest/warehouse-admin.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const PLACES = { queue: { place: 'redis://q' }, warehouse: { place: 'sqlite:w' } } as unknown as Session;

const partition = (name: string, change: Partial<PartitionStatus> = {}): PartitionStatus => ({
  name,
  stream: name,
  events: 3,
  memoryBytes: 2_048,
  unread: 1,
  pending: 2,
  oldestUnlandedMs: 1_500,
  replicas: [],
  ...change,
});
const status = (change: Partial<QueueStatus> = {}): QueueStatus => ({
  servers: [{ name: 'Redis 8', partitions: ['a'], memoryBytes: 1_024, memoryLimitBytes: 0, faults: [] }],
  partitions: [partition('a')],
  away: [],
  ...change,
});
const COUNTS: WarehouseCounts = {
  events: 1_234,
  estimated: false,
  quarantine: [
    { code: 'id_conflict', rows: 12 },
    { code: 'schema', rows: 3 },
  ],
};
const seen = (queue: Look['queue'], warehouse: Look['warehouse'] = COUNTS): Look => ({ atMs: 0, queue, warehouse });

describe('numbers for people', () => {
  it('are bytes in the largest unit that leaves one before the point', () => {
    const shown = [0, 1_023, 1_024, 1_048_575, 1_048_576, 5 * 1_024 ** 4, 5 * 1_024 ** 5, undefined].map(bytesText);
    assert.deepEqual(shown, ['0 B', '1023 B', '1.0 KiB', '1024.0 KiB', '1.0 MiB', '5.0 TiB', '5120.0 TiB', 'unknown']);
  });

  it('are times in seconds, minutes and hours', () => {
    const shown = [0, 59_900, 60_000, 3_599_999, 3_600_000, 90_060_000].map(durationText);
    assert.deepEqual(shown, ['0.0 s', '59.9 s', '1 min 0 s', '59 min 59 s', '1 h 0 min', '25 h 1 min']);
  });

  it('are one row or several, in columns whose numbers end below each other', () => {
    assert.deepEqual([counted(1, 'row'), counted(0, 'row')], ['1 row', '0 rows']);
    assert.deepEqual(
      [counted(1, 'entry', 'entries'), counted(1_000, 'entry', 'entries')],
      ['1 entry', '1,000 entries'],
    );
    assert.deepEqual(
      table(
        [
          ['a', '1', ''],
          ['long', '100', 'x'],
        ],
        [1],
      ),
      ['a       1', 'long  100  x'],
    );
    assert.deepEqual(table([]), []);
  });
});

describe('a look at queue and warehouse', () => {
  const text = (found: Look): string => lookText(PLACES, found);

  it('shows each partition, who lands it, and the quarantine by reason', () => {
    const replicas = [
      { name: 'one', holds: 2, signMs: 100 },
      { name: 'gone', holds: 0, signMs: undefined },
    ];
    const idle = partition('b', { unread: 0, pending: 0, oldestUnlandedMs: 0, memoryBytes: undefined });
    assert.equal(
      text(seen(status({ partitions: [partition('a', { replicas }), idle] }))),
      `queue      redis://q
  Redis 8, 1.0 KiB of memory in use

  partition  events   memory  unread  pending  oldest unlanded
  a               3  2.0 KiB       1        2            1.5 s
  b               3  unknown       0        0                -

  replica  partition  holds  sign of life
  one      a              2  0.1 s ago
  gone     a              0  none any more

warehouse  sqlite:w
  1,234 events, 15 quarantine rows
    12  id_conflict
     3  schema
`,
    );
  });

  it('says that nobody lands, that a count is an estimate, and what threatens each of several servers', () => {
    const [server] = status().servers;
    assert.ok(server !== undefined);
    const servers = [
      { ...server, memoryLimitBytes: 2_048, faults: ['it keeps nothing'] },
      { ...server, name: 'Redis 7', partitions: ['b', 'c'], memoryLimitBytes: undefined },
    ];
    const shown = text(seen(status({ servers, away: ['d: no answer'] }), { ...COUNTS, estimated: true }));
    assert.match(shown, /^ {2}Redis 8 with a, 1\.0 KiB of 2\.0 KiB of memory in use\n {2}warning: it keeps nothing\n/m);
    assert.match(shown, /^ {2}Redis 7 with b, c, 1\.0 KiB of memory in use\n {2}away: d: no answer\n/m);
    assert.match(shown, /\n\n {2}no consumer gives a sign of life\n\nwarehouse/);
    assert.match(shown, /^ {2}about 1,234 events/m);
  });

  it('fails for what is away, the queue before the warehouse, also where only a part is', async () => {
    const [queueAway, warehouseAway] = [new QueueFailed('q'), new WarehouseFailed('w')];
    assert.equal(failureOf(seen(queueAway, warehouseAway)), queueAway);
    assert.equal(failureOf(seen(status(), warehouseAway)), warehouseAway);
    assert.equal(failureOf(seen(status())), undefined);
    const part = failureOf(seen(status({ away: ['a: x', 'b: y'] }), warehouseAway));
    assert.ok(part instanceof QueueFailed);
    assert.equal(part.message, 'a: x; b: y');
    assert.deepEqual(lookJson(seen(queueAway, warehouseAway)), {
      at: '1970-01-01T00:00:00.000Z',
      queue: { error: 'q' },
      warehouse: { error: 'w' },
    });
    const bug = { status: () => Promise.reject(new TypeError('bug')) } as unknown as Session['queue'];
    const counts = { counts: () => Promise.reject(warehouseAway) } as unknown as Session['warehouse'];
    await assert.rejects(look({ queue: bug, warehouse: counts, clock: new VirtualClock() }), /bug/);
  });
});
