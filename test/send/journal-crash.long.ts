import assert from 'node:assert/strict';
import { once } from 'node:events';
import { appendFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { Pipeline } from '../support/pipeline.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually, start, temporaryFolder } from '../support/scope.ts';

describe('a producer with a journal that is killed at random times under load', () => {
  for (const pipelining of [1, 16])
    it(`has exactly one row for every event of its journal, at pipelining depth ${pipelining}`, () =>
      assertOneRowEach(pipelining));
});

async function assertOneRowEach(pipelining: number): Promise<void> {
  const folder = temporaryFolder();
  const redis = await TestRedis.start();
  const warehouse = join(temporaryFolder(), 'warehouse.db');
  const pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: `sqlite:${warehouse}` });
  atEnd(() => pipeline.stop());
  const pem = (name: string): string => readFileSync(join(pipeline.stateDir, 'tls', name), 'utf8');
  const tls = { cert: pem('producer.pem'), key: pem('producer-key.pem'), ca: pem('ca.pem') };
  const options = JSON.stringify({
    url: pipeline.url,
    journal: join(folder, 'journal'),
    concurrency: 32,
    pipelining,
    tries: 1_000,
    ...tls,
  });
  const notes = join(folder, 'notes');
  appendFileSync(notes, '');
  const noted = (): string[] => readFileSync(notes, 'utf8').split('\n').filter(Boolean);
  const producer = (count: number) =>
    start(process.execPath, [
      '--disable-warning=ExperimentalWarning',
      new URL('journaling-producer.ts', import.meta.url).pathname,
      ...[options, notes, String(count)],
    ]);
  for (let round = 1; round <= 6; round += 1) {
    const before = noted().length;
    const running = producer(1_000_000);
    const killAt = before + 1 + Math.floor(Math.random() * 400);
    await eventually('it has sent some', () => noted().length >= killAt);
    running.kill('SIGKILL');
    await once(running, 'exit');
  }
  const draining = producer(0);
  const [code] = (await once(draining, 'exit')) as [number];
  assert.equal(code, 0);
  const ids = noted();
  assert.ok(new Set(ids).size === ids.length && ids.length > 6);
  const database = new DatabaseSync(warehouse, { readOnly: true });
  const rows = (): Map<string, number> =>
    new Map(
      (database.prepare('SELECT id, count(*) AS n FROM events GROUP BY id').all() as { id: string; n: number }[]).map(
        ({ id, n }) => [id, n],
      ),
    );
  await eventually('every event has landed', () => {
    const found = rows();
    return ids.every((id) => found.has(id));
  });
  assert.deepEqual(
    [...rows().values()].filter((count) => count !== 1),
    [],
  );
  database.close();
}
