import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { event, PATIENT } from '../support/gateway.ts';
import { metricOf, Pipeline } from '../support/pipeline.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

describe('INGEST_SCHEMAS_DIR', () => {
  it('quarantines events that do not match, and lands them by a replay once the schema is corrected', async () => {
    const folder = temporaryFolder();
    const write = (type: string): void =>
      writeFileSync(join(folder, 'test.event.json'), JSON.stringify({ properties: { n: { type } } }));
    write('integer');
    const [redis, store] = [await TestRedis.start(['--appendonly', 'no']), sqliteStore()];
    const [queueUri, warehouseUri] = [redis.uri, store.uri];
    const pipeline = await Pipeline.start({ queueUri, warehouseUri, env: { ...PATIENT, INGEST_SCHEMAS_DIR: folder } });
    atEnd(() => pipeline.stop());
    const [replica = assert.fail()] = pipeline.replicas;
    for (const body of [event('good', { n: 1 }), event('bad', { n: 'x' }), '{"id":"other","type":"other"}'])
      assert.equal((await pipeline.post(body)).status, 202);
    await eventually('all landed', async () => (await store.count()) === 2 && (await store.quarantine()).length === 1);
    const { body } = await pipeline.find('bad');
    assert.deepEqual([body['status'], body['reason']], ['rejected', 'schema: /n must be integer']);
    for (const result of ['matched', 'unmatched', 'unschematized'])
      assert.equal(await metricOf(replica, `ingest_schema_events_total{result="${result}"}`), 1, result);

    const replay = (): Program['ended'] =>
      new Program('ingest-admin', {
        args: ['quarantine', 'replay', '--reason', 'schema', '--yes'],
        env: { INGEST_QUEUE_URI: queueUri, INGEST_WAREHOUSE_URI: warehouseUri },
      }).ended;
    assert.equal(await replay(), 1, 'nothing was mended');
    write('string');
    await replica.program.line(/files reloaded and in use/);
    assert.equal(await replay(), 0);
    assert.deepEqual([(await pipeline.find('bad')).body['status'], await store.quarantine()], ['landed', []]);

    // The schema now refuses an event that has landed. The consumer reads three events and two replays again.
    await redis.command('XGROUP', 'SETID', 'ingest', 'warehouse', '0');
    await eventually(
      'it was read again',
      async () => (await metricOf(replica, 'ingest_consumer_duplicates_total')) === 5,
    );
    assert.deepEqual([await store.count(), await store.quarantine()], [3, []]);
  });
});
