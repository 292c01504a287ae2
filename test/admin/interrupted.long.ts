// Kills ingest-admin and consumers at random times, then runs the commands again.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PATIENT } from '../support/gateway.ts';
import { Pipeline } from '../support/pipeline.ts';
import { startPostgres } from '../support/postgres.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { postgresStore, sqliteStore, type StoredEntry, type WarehouseStore } from '../support/warehouse-store.ts';
import { Admin } from './admin.ts';

const PRODUCER = 'urn:ingest:producer:development';
const HELD_BACK = 'held.back';
const EVENTS = 60;
const KILLS = 3;
const START_MS = 60_000;

const idOf = (at: number): string => `e-${String(at).padStart(3, '0')}`;
/** The body has spaces, escapes and a lone surrogate, which a program that rewrites it might change. */
const body = (id: string, type = HELD_BACK): string =>
  `{ "id":"${id}","type":"${type}", "text":"\\u0000 é \u{1F600} \\ud800" }`;
const random = (below: number): number => Math.floor(Math.random() * below);
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function assertReplayedOnce(store: WarehouseStore): Promise<void> {
  const redis = await TestRedis.start(['--appendonly', 'no']);
  const admin = new Admin(redis, store);
  const pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: store.uri, replicas: 2, env: PATIENT });
  await eventually('the tables are there', () => store.events(), START_MS);
  const quarantined = (count: number): Promise<readonly StoredEntry[]> =>
    eventually(`${count} rows in the quarantine`, async () => {
      const rows = await store.quarantine();
      return rows.length === count && rows;
    });
  await store.refuse(HELD_BACK, true);
  for (let at = 0; at < EVENTS; at += 1) assert.equal((await pipeline.post(body(idOf(at)))).status, 202);
  const rows = await quarantined(EVENTS);
  await store.refuse(HELD_BACK, false);

  const replay = ['quarantine', 'replay', '--reason', 'refused_by_warehouse', '--yes'];
  for (let kill = 0; kill < KILLS; kill += 1) {
    const program = admin.start(...replay);
    await pause(150 + random(500));
    if (kill % 2 === 0) {
      await pipeline.replicas.find(({ program: one }) => one.running)?.program.kill();
      await pipeline.startConsumer();
    }
    program.signal(random(2) === 0 ? 'SIGKILL' : 'SIGINT');
    await program.ended;
  }
  const { code } = await admin.run(...replay);
  assert.ok(code === 0 || code === 1, String(code));
  await quarantined(0);
  const landed = await store.events();
  assert.deepEqual(
    landed.map((row) => [row.id, row.producer, row.body, row.acceptedAtMs]),
    rows
      .toSorted((one, other) => ((one.id ?? '') < (other.id ?? '') ? -1 : 1))
      .map((row) => [row.id, PRODUCER, row.body.toString('utf8'), row.acceptedAtMs]),
  );
  const replays = (await redis.entries()).flatMap(({ fields }) => fields['replayOf'] ?? []);
  assert.deepEqual(replays.toSorted(), rows.map(({ entry }) => entry).toSorted());
  await pipeline.stop();
}

describe('quarantine replay, interrupted and run again, replays each event once, byte for byte', () => {
  it('with SQLite', () => assertReplayedOnce(sqliteStore()));

  it('with PostgreSQL', async () => {
    const postgres = await startPostgres();
    atEnd(() => postgres.stop());
    await assertReplayedOnce(await postgresStore(postgres));
  });
});
