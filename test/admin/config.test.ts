// Which queues ingest-admin works on.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { readAdminConfig } from '../../lib/admin/config.ts';

const read = (queueUri: string) =>
  readAdminConfig({ INGEST_QUEUE_URI: queueUri, INGEST_WAREHOUSE_URI: 'sqlite:events.db' });

it('ingest-admin takes every topology', () => {
  for (const uri of [
    'redis://h:1',
    'rediss://h:1',
    'redis+cluster://h:1,i:1',
    'rediss+sentinel://h:1,i:2/master',
    'dispatcher://h:1,i:2',
  ])
    assert.deepEqual([read(uri).report.problems, read(uri).config?.queueUri], [[], uri]);
  const nothing = readAdminConfig({});
  assert.deepEqual(nothing.report.problems.map((problem) => problem.split(/[ :=]/)[0]).toSorted(), [
    'INGEST_QUEUE_URI',
    'INGEST_WAREHOUSE_URI',
  ]);
  assert.equal(nothing.config, undefined);
  assert.match(read('redis+sentinel://h:1').report.problems.join(), /the name of the master/);
});
