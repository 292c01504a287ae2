import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { event, PATIENT } from '../support/gateway.ts';
import { metricOf, Pipeline } from '../support/pipeline.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

const schemaOf = (type: string): string => JSON.stringify({ properties: { n: { type } } });

describe('INGEST_SCHEMAS_DIR', () => {
  it(
    'quarantines events that do not match, and lands them by a replay once the schema is corrected',
    { tags: ['long'] },
    async (t) => {
      const folder = temporaryFolder();
      const schema = join(folder, 'test.event.json');
      writeFileSync(schema, schemaOf('integer'));
      const [redis, store] = [await TestRedis.start(['--appendonly', 'no']), sqliteStore()];
      const [queueUri, warehouseUri] = [redis.uri, store.uri];
      const env = { ...PATIENT, INGEST_SCHEMAS_DIR: folder };
      const pipeline = await Pipeline.start({ queueUri, warehouseUri, env });
      t.after(() => pipeline.stop());
      for (const body of [event('good', { n: 1 }), event('bad', { n: 'x' }), '{"id":"other","type":"other"}'])
        assert.equal((await pipeline.post(body)).status, 202);
      await eventually(
        'each has its row',
        async () => (await store.count()) === 2 && (await store.quarantine()).length === 1,
      );
      const found = await pipeline.find('bad');
      assert.deepEqual([found.body['status'], found.body['reason']], ['rejected', 'schema: /n must be integer']);
      const [replica = assert.fail()] = pipeline.replicas;
      for (const result of ['matched', 'unmatched', 'unschematized'])
        assert.equal(await metricOf(replica, `ingest_schema_events_total{result="${result}"}`), 1, result);

      const admin = (...args: string[]): Program['ended'] =>
        new Program('ingest-admin', { args, env: { INGEST_QUEUE_URI: queueUri, INGEST_WAREHOUSE_URI: warehouseUri } })
          .ended;
      const replay = (): Program['ended'] => admin('quarantine', 'replay', '--reason', 'schema', '--yes');
      assert.equal(await replay(), 1, 'nothing was mended');
      writeFileSync(schema, schemaOf('string'));
      await replica.program.line(/files reloaded and in use/);
      assert.equal(await replay(), 0);
      assert.deepEqual([(await pipeline.find('bad')).body['status'], await store.quarantine()], ['landed', []]);

      // The schema now refuses an event that has landed. The consumer reads three events and two replays again.
      await redis.command('XGROUP', 'SETID', 'ingest', 'warehouse', '0');
      await eventually(
        'it was read again',
        async () => (await metricOf(replica, 'ingest_consumer_duplicates_total')) === 5,
      );
      assert.deepEqual([await store.count(), (await store.quarantine()).map(({ id }) => id)], [3, []]);
    },
  );

  it('makes --check name an unusable file and exit with 2', async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'order.paid.json'), '{');
    const env = { INGEST_QUEUE_URI: 'redis://localhost', INGEST_WAREHOUSE_URI: 'sqlite:unused.db' };
    const program = new Program('ingest-consumer', { args: ['--check'], env: { ...env, INGEST_SCHEMAS_DIR: folder } });
    assert.equal(await program.ended, 2);
    assert.match(program.output, /INGEST_SCHEMAS_DIR=.*order\.paid\.json: not JSON/);
  });

  it('loads the schema libraries only if it is set', { tags: ['long'] }, async () => {
    const hooks = `import { registerHooks } from 'node:module';
      registerHooks({ resolve(name, context, next) {
        if (/^ajv($|\\/)/.test(name)) throw new Error('no ' + name);
        return next(name, context);
      } });`;
    const env = {
      INGEST_QUEUE_URI: 'redis://localhost',
      INGEST_WAREHOUSE_URI: 'sqlite:unused.db',
      NODE_OPTIONS: `--import "data:text/javascript,${encodeURIComponent(hooks)}"`,
    };
    const without = new Program('ingest-consumer', { args: ['--check'], env });
    assert.equal(await without.ended, 0, without.output);
    const having = new Program('ingest-consumer', {
      args: ['--check'],
      env: { ...env, INGEST_SCHEMAS_DIR: temporaryFolder() },
    });
    assert.notEqual(await having.ended, 0);
    assert.match(having.output, /no ajv/);
  });
});
