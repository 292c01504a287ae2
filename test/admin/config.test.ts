// Which queues ingest-admin works on.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { readAdminConfig } from '../../lib/admin/config.ts';

const read = (queueUri: string) =>
  readAdminConfig({ INGEST_QUEUE_URI: queueUri, INGEST_WAREHOUSE_URI: 'sqlite:events.db' });

it('ingest-admin takes every topology, and the queues behind a dispatcher in its place', () => {
  for (const uri of ['redis://h:1', 'rediss://h:1', 'redis+cluster://h:1,i:1', 'rediss+sentinel://h:1,i:2/master'])
    assert.deepEqual([read(uri).report.problems, read(uri).config?.queueUris], [[], [uri]]);
  assert.deepEqual(read('redis://h:1 redis://i:1').config?.queueUris, ['redis://h:1', 'redis://i:1']);
  for (const uri of ['dispatcher://h:1', 'dispatchers://h:1', 'redis://h:1 dispatcher://h:1']) {
    const { config, report } = read(uri);
    assert.equal(config, undefined, uri);
    assert.match(report.problems.join(), /expected the queues themselves, as the consumers have them/, uri);
  }
  const nothing = readAdminConfig({});
  assert.deepEqual(nothing.report.problems.map((problem) => problem.split(/[ :=]/)[0]).toSorted(), [
    'INGEST_QUEUE_URI',
    'INGEST_WAREHOUSE_URI',
  ]);
  assert.equal(nothing.config, undefined);
  assert.match(read('redis+sentinel://h:1').report.problems.join(), /the name of the master/);
});
