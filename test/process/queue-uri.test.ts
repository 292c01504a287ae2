import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readAdminConfig } from '../../lib/admin/config.ts';
import { readConsumerConfig } from '../../lib/consumer/config.ts';
import { readGatewayConfig } from '../../lib/gateway/config.ts';
import { queueAddress } from '../../lib/process/queue-uri.ts';

const parts = (uri: string): unknown => {
  const address = queueAddress(uri);
  if (typeof address === 'string' || address.kind === 'server' || address.kind === 'dispatcher') return address;
  const { uriOf, ...rest } = address;
  const [first = ''] = rest.hosts;
  return { ...rest, uri: uriOf(first), anonymous: uriOf(first, true) };
};

const fault = (uri: string): string => {
  const address = queueAddress(uri);
  return typeof address === 'string' ? address : '';
};

describe('the URI of a queue', () => {
  it('names one server', () => {
    for (const uri of ['redis://host', 'rediss://user:p%40@host:1/2'])
      assert.deepEqual(queueAddress(uri), { kind: 'server', uri });
  });

  it('names sentinels and a master, and only the master receives user, password and database', () => {
    assert.deepEqual(parts('redis+sentinel://us%2Cer:p%40ss@s1:26379,[::1]:5,s3/the-master?db=3'), {
      kind: 'sentinel',
      hosts: ['s1:26379', '[::1]:5', 's3:26379'],
      masterName: 'the-master',
      uri: 'redis://us%2Cer:p%40ss@s1:26379/3',
      anonymous: 'redis://s1:26379',
    });
  });

  it('names nodes of a cluster, over TLS with the scheme for it', () => {
    assert.deepEqual(parts('rediss+cluster://:secret@h1:7000,h2'), {
      kind: 'cluster',
      hosts: ['h1:7000', 'h2:6379'],
      masterName: '',
      uri: 'rediss://:secret@h1:7000',
      anonymous: 'rediss://h1:7000',
    });
  });

  it('names two servers of a dispatcher, with the same user and password', () => {
    assert.deepEqual(queueAddress('dispatcher://h1:1,h2:2'), {
      kind: 'dispatcher',
      uris: ['redis://h1:1', 'redis://h2:2'],
    });
    assert.deepEqual(queueAddress('dispatchers://u:p%40@h1,[::1]:2/'), {
      kind: 'dispatcher',
      uris: ['rediss://u:p%40@h1/', 'rediss://u:p%40@[::1]:2/'],
    });
  });

  it('with a mistake is refused with the form that is expected', () => {
    for (const [form, ...uris] of [
      ['dispatcher://', '://h1', '://h1,h2,h3', '://h1,h2/3', '://h1,h2?db=3', '://h1,h2?'],
      ['redis+sentinel://', '://s1,s2', '://s1/m?db=x', '://s1/m?db=1&a=2', '://s1/m?a=3', '://s1/m#a', '://s1/a/b'],
      ['redis+cluster://', '://h1,h2/1', '://h1?db=1', '://h1#'],
      ['redis://', '://host?db=3', '://[::1]:1/?protocol=3&db=1', '://host?', '://host/abc', '://host/1#a', '://h/1/2'],
    ] as const)
      for (const uri of uris)
        assert.ok(fault(form.replace('://', uri)).startsWith(`expected ${form}`), form.replace('://', uri));
  });

  it('allows a number of partitions only for a cluster', () => {
    const problems = (uri: string, partitions: string): readonly string[] =>
      readGatewayConfig({ INGEST_QUEUE_URI: uri, INGEST_QUEUE_PARTITIONS: partitions }).report.problems;
    assert.deepEqual(problems('redis+cluster://h1', '12'), []);
    assert.deepEqual(problems('redis://h1', ''), []);
    assert.match(problems('redis://h1', '12').join(), /^INGEST_QUEUE_PARTITIONS="12": expected a redis\+cluster URI/);
  });

  it('is checked by every program', () => {
    const both = { INGEST_QUEUE_URI: 'redis://host?db=3', INGEST_WAREHOUSE_URI: 'sqlite:a' };
    for (const read of [readGatewayConfig, readConsumerConfig, readAdminConfig])
      assert.match(read(both).report.problems.join(), /^INGEST_QUEUE_URI=[^\n]*$/);
  });

  it('may have several hosts if it says so, but not an empty one', () => {
    const read = (uri: string): unknown => readGatewayConfig({ INGEST_QUEUE_URI: uri }).report.problems.length;
    assert.equal(read('redis+cluster://user:p@h1:1,h2:2,[::1]:3'), 0);
    const several = ['redis://h1:1,h2:1', 'redis+cluster://h1:1,,h2', 'dispatcher://h1:1,'];
    for (const uri of [...several, 'redis+cluster://h1:99999', 'redis+cluster://us%er:p@h1'])
      assert.equal(read(uri), 1, uri);
  });
});
