// Which queues ingest-admin works on.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { readAdminConfig } from '../../lib/admin/config.ts';

const read = (queueUri: string) =>
  readAdminConfig({ INGEST_QUEUE_URI: queueUri, INGEST_WAREHOUSE_URI: 'sqlite:events.db' }, true);

it('ingest-admin takes one server, and refuses what it would read as one', () => {
  for (const uri of ['redis://h:1', 'rediss://h:1']) assert.deepEqual(read(uri).report.problems, [], uri);
  for (const uri of [
    'redis+cluster://h:1',
    'rediss+cluster://h:1',
    'redis+sentinel://h:1/master',
    'rediss+sentinel://h:1/master',
    'dispatcher://h:1',
    'dispatchers://h:1',
  ]) {
    const { config, report } = read(uri);
    assert.equal(config, undefined, uri);
    assert.match(report.problems.join(), /expected redis:\/\/ or rediss:\/\/, one server/, uri);
  }
});
