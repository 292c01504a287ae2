// Simulates power failures: files are copied while the store is open, and then cut or torn at random places. Redis
// must have a prefix of the events and must know exactly their ids, so that sending all events again adds each
// missing event once. SQLite may lose whole batches from the end, and landing them again must create each row once.
import assert from 'node:assert/strict';
import { copyFileSync, cpSync, existsSync, globSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import type { Outcome } from '../../lib/ingest/queue.ts';
import type { LandingEvent } from '../../lib/ingest/warehouse.ts';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { openQueue } from '../support/partition.ts';
import { TestRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/scope.ts';
import { brokenBuild } from './broken-build.ts';
import { Random } from './random.ts';

const CUTS = 12;

const EVENTS = 120;
const bodyOf = (id: string): string =>
  JSON.stringify({ id, type: 't', data: 'x'.repeat(id.endsWith('7') ? 3_000 : 30) });

async function submitAll(uri: string, ids: readonly string[]): Promise<readonly Outcome[]> {
  const queue = await openQueue(uri, { enqueueTimeoutMs: 30_000 });
  const outcomes: Outcome[] = [];
  for (let from = 0; from < ids.length; from += 1 + (from % 5)) {
    const some = ids.slice(from, from + 1 + (from % 5));
    const settled = some.map(
      (id) =>
        new Promise<Outcome>((settle) => queue.submit({ id, producer: 'p', body: Buffer.from(bodyOf(id)), settle })),
    );
    outcomes.push(...(await Promise.all(settled)));
  }
  await queue.close();
  return outcomes;
}

const idsOn = async (redis: TestRedis): Promise<readonly string[]> =>
  (await redis.entries()).map(({ fields }) => (JSON.parse(fields['body'] ?? '{}') as { id: string }).id);

describe('a queue whose power fails', () => {
  it('keeps a prefix of the events without a gap, and accepts the others again, each once', async () => {
    const random = new Random(2026);
    const under = temporaryFolder('ingest-power-');
    const redis = await TestRedis.start(['--appendfsync', 'always'], { under });
    const ids = Array.from({ length: EVENTS }, (_, at) => `order-${at}`);
    assert.deepEqual(new Set(await submitAll(redis.uri, ids)), new Set(['accepted']));
    await redis.signal('SIGKILL');
    const [file = ''] = globSync(`${under}/**/*.incr.aof`);
    const whole = readFileSync(file);
    let lost = 0;
    for (let cut = 0; cut < CUTS; cut += 1) {
      writeFileSync(file, whole.subarray(0, random.between(whole.length >> 1, whole.length)));
      await redis.start();
      const kept = await idsOn(redis);
      assert.deepEqual(kept, ids.slice(0, kept.length));
      const again = await submitAll(redis.uri, ids);
      assert.deepEqual(
        again,
        ids.map((_, at) => (at < kept.length ? 'duplicate' : 'accepted')),
      );
      assert.deepEqual(await idsOn(redis), ids);
      lost += ids.length - kept.length;
      await redis.signal('SIGKILL');
    }
    assert.ok(lost > 0, 'some cut went through events');
  });
});

const BATCHES = 24;
const ROWS = 7;
const batches = Array.from({ length: BATCHES }, (_, batch) =>
  Array.from({ length: ROWS }, (_, at): LandingEvent => {
    const id = `${batch}-${at}`;
    return { id, type: 't', producer: 'p', body: Buffer.from(bodyOf(id)), acceptedAtMs: 1 };
  }),
);

async function tear(open: typeof createSqliteWarehouse): Promise<string | undefined> {
  const random = new Random(2026);
  const folder = temporaryFolder('ingest-power-');
  const [path, torn] = [join(folder, 'whole.db'), join(folder, 'torn.db')];
  const warehouse = open({ path });
  await warehouse.prepare();
  for (const batch of batches) await warehouse.land(batch);
  const log = `${path}-wal`;
  assert.ok(existsSync(log));
  cpSync(path, join(folder, 'at-cut.db'));
  const whole = readFileSync(log);
  await warehouse.close();
  let lost = 0;
  for (let cut = 0; cut < 2 * CUTS; cut += 1) {
    for (const end of ['', '-wal', '-shm']) rmSync(torn + end, { force: true });
    copyFileSync(join(folder, 'at-cut.db'), torn);
    const at = random.between(whole.length >> 2, whole.length - 1);
    writeFileSync(`${torn}-wal`, whole);
    if (cut % 2 === 0) truncateSync(`${torn}-wal`, at);
    else writeFileSync(`${torn}-wal`, Buffer.concat([whole.subarray(0, at), Buffer.of(0xa5), whole.subarray(at + 1)]));
    const after = open({ path: torn });
    await after.prepare();
    const look = new DatabaseSync(torn);
    const rows = look.prepare('SELECT id FROM events ORDER BY rowid').all();
    const intact = look.prepare('PRAGMA integrity_check').get()?.['integrity_check'];
    if (intact !== 'ok') return `the file is damaged: ${String(intact)}`;
    const kept = Math.floor(rows.length / ROWS);
    const expected = batches.slice(0, kept).flatMap((batch) => batch.map(({ id }) => id));
    if (rows.map(({ id }) => String(id)).join(' ') !== expected.join(' ')) return 'a part of a batch is there';
    for (const [number, batch] of batches.entries()) {
      const outcomes = new Set(await after.land(batch));
      if (outcomes.size !== 1 || !outcomes.has(number < kept ? 'duplicate' : 'landed'))
        return 'a batch landed in parts';
    }
    if (look.prepare('SELECT count(*) AS n FROM events').get()?.['n'] !== BATCHES * ROWS) return 'rows are missing';
    look.close();
    await after.close();
    lost += BATCHES - kept;
  }
  return lost === 0 ? 'no cut went through a batch' : undefined;
}

describe('a SQLite warehouse whose power fails', () => {
  it('keeps whole batches from the first one on, and lands the others again, each row once', async () => {
    assert.equal(await tear(createSqliteWarehouse), undefined);
  });

  it('is found to hold part of a batch if each row is a separate transaction', async () => {
    const folder = brokenBuild('lands each row in a transaction of its own');
    const broken = (await import(join(folder, 'lib/sqlite/warehouse.ts'))) as {
      readonly createSqliteWarehouse: typeof createSqliteWarehouse;
    };
    assert.equal(await tear(broken.createSqliteWarehouse), 'a part of a batch is there');
  });
});
