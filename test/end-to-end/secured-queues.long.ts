import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { event, PATIENT } from '../support/gateway.ts';
import { Pipeline } from '../support/pipeline.ts';
import { Pki } from '../support/pki.ts';
import { Program, type ProgramName } from '../support/program.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';
import { TestSentinels } from '../support/redis-sentinel.ts';
import { freePort } from '../support/free-port.ts';
import { TestCluster } from '../support/redis-cluster.ts';
import { clusterRule } from '../support/redis-rights.ts';

let pki: Pki;
before(async () => {
  pki = await Pki.create();
});

const authorities = (): Readonly<Record<string, string>> => ({ NODE_EXTRA_CA_CERTS: pki.path('ca.pem') });

interface Refusal {
  readonly what: string;
  readonly uri: string;
  readonly code: 2 | 4;
  readonly says: RegExp;
  readonly name?: ProgramName;
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts all programs at the same time, because each waits five seconds for its queue. */
async function assertRefused(refusals: readonly Refusal[]): Promise<void> {
  const programs = refusals.map(
    ({ uri, name = 'ingest-gateway', env = authorities() }) =>
      new Program(name, {
        env: {
          INGEST_QUEUE_URI: uri,
          INGEST_STATE_DIR: temporaryFolder(),
          INGEST_GATEWAY_ADDR: '127.0.0.1:0',
          INGEST_CONSUMER_ADDR: '127.0.0.1:0',
          INGEST_WAREHOUSE_URI: `sqlite:${temporaryFolder()}/warehouse.db`,
          ...env,
        },
      }),
  );
  for (const [at, program] of programs.entries()) {
    const { what, code, says } = refusals[at] ?? assert.fail();
    assert.equal(await program.ended, code, `${what}: ${program.output}`);
    assert.match(program.output, says, what);
    assert.ok(!/secret|stale-word/.test(program.output), `${what}: the password is shown`);
  }
}

async function assertLands(uris: { readonly gateway: string; readonly consumer: string }): Promise<void> {
  const store = sqliteStore();
  const env = { ...authorities(), ...PATIENT, INGEST_QUEUE_REPLICAS: '1' };
  const pipeline = await Pipeline.start({ queueUri: uris.gateway, warehouseUri: store.uri, replicas: 0, env });
  try {
    await pipeline.startConsumer({ INGEST_QUEUE_URI: uris.consumer });
    const ids = Array.from({ length: 20 }, (_, at) => `secured-${at}`);
    for (const id of ids)
      await eventually('it is accepted', async () => (await pipeline.post(event(id))).status === 202);
    assert.equal((await pipeline.post(event('secured-0'))).body['duplicate'], true);
    await eventually('all have landed', async () => (await store.count()) === ids.length);
    assert.equal((await pipeline.find('secured-0')).status, 200);
  } finally {
    await pipeline.stop();
  }
}

describe('a queue behind sentinels over TLS with a password', () => {
  let sentinels: TestSentinels;
  before(async () => {
    sentinels = await TestSentinels.start({ replicas: 1, pki, password: 'secret' });
  });

  it('accepts events that a replica acknowledges, and lands them', () =>
    assertLands({ gateway: sentinels.uri, consumer: sentinels.uri }));

  it('is unavailable with a wrong password, master name, sentinel or authority', async () => {
    const { uri } = sentinels;
    const nobody = `127.0.0.1:${await freePort()}`;
    await assertRefused([
      { what: 'password', uri: uri.replace('secret', 'stale-word'), code: 4, says: /WRONGPASS/ },
      { what: 'name', uri: uri.replace(/\/[^/]+$/, '/another'), code: 4, says: /know no master named another/ },
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

describe('a Redis Cluster over TLS with the documented users', () => {
  let cluster: TestCluster;
  before(async () => {
    cluster = await TestCluster.start({ pki });
    for (const node of cluster.nodes)
      for (const program of ['ingest-gateway', 'ingest-consumer'])
        await node.command('ACL', 'SETUSER', program, 'reset', ...clusterRule(program));
  });

  it('accepts events that a replica acknowledges, and lands them', () =>
    assertLands({
      gateway: cluster.uriOf('ingest-gateway:secret@'),
      consumer: cluster.uriOf('ingest-consumer:secret@'),
    }));

  it('is unavailable with a wrong password, node or authority, or without a right', async () => {
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
