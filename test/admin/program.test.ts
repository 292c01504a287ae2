// ingest-admin with SQLite, and without a configuration.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Program } from '../support/program.ts';
import { sqliteStore } from '../support/warehouse-store.ts';
import { describeAdmin } from './program.ts';

describeAdmin('SQLite', async () => sqliteStore());

describe('ingest-admin', () => {
  it('names every wrong key at once, and needs no warehouse to measure', async () => {
    const program = new Program('ingest-admin', { args: ['status'] });
    assert.equal(await program.ended, 2);
    for (const key of ['INGEST_QUEUE_URI', 'INGEST_WAREHOUSE_URI'])
      assert.match(program.output, new RegExp(`${key}: is required`));
  });
});
