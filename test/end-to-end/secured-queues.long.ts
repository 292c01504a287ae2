// What a program says at its start where a secured queue's password or authority is wrong, and a Redis Cluster over TLS.
import { before, describe, it } from 'node:test';
import { freePort } from '../support/free-port.ts';
import { TestCluster } from '../support/redis-cluster.ts';
import { clusterRule } from '../support/redis-rights.ts';
import { TestSentinels } from '../support/redis-sentinel.ts';
import { assertLands, assertRefused, pki } from './secured-queues.ts';

describe('a queue behind sentinels over TLS, all of which ask for the password of the URI', () => {
  let sentinels: TestSentinels;
  before(async () => {
    sentinels = await TestSentinels.start({ replicas: 1, pki, password: 'secret' });
  });

  it('is not there for who has the password, the name of the master, the sentinels or their authority wrong', async () => {
    const { uri } = sentinels;
    const nobody = `127.0.0.1:${await freePort()}`;
    await assertRefused([
      { what: 'password', uri: uri.replace('secret', 'stale-word'), code: 4, says: /WRONGPASS/ },
      { what: 'name', uri: uri.replace(/\/[^/]+$/, '/another'), code: 4, says: /know no master of the name another/ },
      {
        what: 'sentinels',
        uri: `rediss+sentinel://${nobody}/main`,
        code: 4,
        says: /no sentinel answers \(.*ECONNREFUSED/,
      },
      { what: 'authority', uri, code: 4, says: /no sentinel answers \(.*certificate/, env: {} },
      { what: 'no name', uri: uri.replace(/\/[^/]+$/, ''), code: 2, says: /expected the name of the master/ },
    ]);
  });
});

describe('a Redis Cluster over TLS, whose users have the rules of the README', () => {
  let cluster: TestCluster;
  before(async () => {
    cluster = await TestCluster.start({ pki });
    for (const node of cluster.nodes)
      for (const program of ['ingest-gateway', 'ingest-consumer'])
        await node.command('ACL', 'SETUSER', program, 'reset', ...clusterRule(program));
  });

  it('takes events, acknowledged by a replica, and lands them', () =>
    assertLands({
      gateway: cluster.uriOf('ingest-gateway:secret@'),
      consumer: cluster.uriOf('ingest-consumer:secret@'),
    }));

  it('is not there for who has the password, the nodes or their authority wrong, or lacks a right', async () => {
    const good = cluster.uriOf('ingest-gateway:secret@');
    const nobody = `127.0.0.1:${await freePort()}`;
    await assertRefused([
      { what: 'password', uri: cluster.uriOf('ingest-gateway:stale-word@'), code: 4, says: /WRONGPASS/ },
      { what: 'right', uri: good, code: 4, says: /lacks rights.*xgroup/, name: 'ingest-consumer' },
      { what: 'nodes', uri: `rediss+cluster://${nobody}`, code: 4, says: /ECONNREFUSED/ },
      { what: 'authority', uri: good, code: 4, says: /certificate/, env: {} },
      { what: 'path', uri: `${good}/1`, code: 2, says: /expected no path/ },
    ]);
  });
});
