import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { TestClient, TestProcess } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { startPostgres } from '../support/postgres.ts';
import { ProducerLoad } from '../support/load.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { postgresStore, sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';
import { Installation, makePackages, NODE_ON_PATH, ROOT } from './installation.ts';

const BASE = process.env['CI_BASE'] ?? readFileSync(join(ROOT, '.ci/base'), 'utf8').trim();
const git = (...args: string[]): number | null => spawnSync('git', ['-C', ROOT, ...args]).status;

function makeBasePackages(): string {
  const clone = join(temporaryFolder('ingest-base-'), 'clone');
  execFileSync('git', ['clone', '--quiet', '--shared', '--no-checkout', ROOT, clone]);
  execFileSync('git', ['-C', clone, 'checkout', '--quiet', BASE]);
  if (git('diff', '--quiet', BASE, '--', 'package-lock.json') === 0)
    symlinkSync(join(ROOT, 'node_modules'), join(clone, 'node_modules'));
  else execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: clone, stdio: 'ignore' });
  return makePackages(clone);
}

const PATIENT = { timeout: 600_000 };

interface Running {
  readonly process: TestProcess;
  /** The number of events that it has accepted or landed. */
  readonly taken: () => Promise<number>;
}

const valueOf = (metrics: string, name: string): number =>
  Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(metrics)?.[1]);

async function startFleet(store: WarehouseStore) {
  const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  const producer = await pki.producer('shop');
  const env = {
    ...NODE_ON_PATH,
    ...pki.environment,
    INGEST_QUEUE_URI: redis.uri,
    INGEST_WAREHOUSE_URI: store.uri,
    INGEST_STATE_DIR: temporaryFolder('ingest-state-'),
    INGEST_ENQUEUE_TIMEOUT_MS: '5000',
    INGEST_GATEWAY_ADDR: '127.0.0.1:0',
    INGEST_CONSUMER_ADDR: '127.0.0.1:0',
  };
  const start = (version: Installation, name: string): TestProcess =>
    new TestProcess(version.program(name), [], env, { cwd: version.folder });
  const clients = new Map<TestProcess, TestClient>();
  let posts = 0;
  return {
    post: (body: string) => {
      const client = [...clients.values()][(posts += 1) % clients.size];
      assert.ok(client !== undefined, 'a gateway runs');
      return client.post(body);
    },
    gateway: async (version: Installation): Promise<Running> => {
      const process = start(version, 'ingest-gateway');
      const port = Number(/https:\/\/[^"]*:(\d+)/.exec(await process.line(/listening on https/))?.[1]);
      const client = new TestClient(port, pki.authority.certificate, producer, {});
      clients.set(process, client);
      const taken = async () => valueOf((await client.ask({ path: '/metrics' })).body, 'ingest_accepted_total');
      return { process, taken };
    },
    consumer: async (version: Installation): Promise<Running> => {
      const process = start(version, 'ingest-consumer');
      const url = /http:\/\/[\d.:]+/.exec(await process.line(/listening on http/))?.[0] ?? '';
      const taken = async () => valueOf(await (await fetch(`${url}/metrics`)).text(), 'ingest_landed_total');
      return { process, taken };
    },
    /** Takes a gateway out of the rotation before stopping it, as a load balancer would. */
    stop: async ({ process }: Running): Promise<void> => {
      clients.delete(process);
      process.signal('SIGTERM');
      assert.equal((await process.exited()).code, 0, process.output);
    },
  };
}

async function allTake(...running: readonly Running[]): Promise<void> {
  await Promise.all(
    running.map(async ({ process, taken }) => {
      const before = await taken();
      const takesPart = async (): Promise<boolean> => (await taken()) >= before + 20;
      await eventually('it takes part', takesPart).catch((cause) => assert.fail(`${cause}\n${process.output}`));
    }),
  );
}

async function assertUpgradedAndBack(store: WarehouseStore, older: Installation, newer: Installation): Promise<void> {
  const fleet = await startFleet(store);
  const first = { consumer: await fleet.consumer(older), gateway: await fleet.gateway(older) };
  const load = new ProducerLoad(fleet, 'e', 4);
  await allTake(first.gateway, first.consumer);

  const newConsumer = await fleet.consumer(newer);
  await allTake(first.consumer, newConsumer);
  const newGateway = await fleet.gateway(newer);
  await allTake(first.gateway, newGateway, first.consumer, newConsumer);
  await fleet.stop(first.gateway);
  await fleet.stop(first.consumer);
  await allTake(newGateway, newConsumer);

  const oldGateway = await fleet.gateway(older);
  await allTake(oldGateway, newGateway, newConsumer);
  await fleet.stop(newGateway);
  const oldConsumer = await fleet.consumer(older);
  await allTake(oldConsumer, newConsumer);
  await fleet.stop(newConsumer);
  await allTake(oldGateway, oldConsumer);
  await (await load.stop()).assertLanded(store);
}

if (git('cat-file', '-e', `${BASE}^{commit}`) !== 0)
  process.stdout.write(`${BASE} is not in this clone: this version is compared with no other one\n`);
else
  describe('gateways and consumers of this version and of the previous one', () => {
    let older: Installation;
    let newer: Installation;

    before(() => {
      older = new Installation(makeBasePackages(), 'ingest-gateway');
      newer = new Installation(makePackages(), 'ingest-gateway');
    }, PATIENT);

    it('share a queue and a SQLite file, forward and back: each event has exactly one row', PATIENT, () =>
      assertUpgradedAndBack(sqliteStore(), older, newer),
    );

    it('share a queue and PostgreSQL, forward and back: each event has exactly one row', PATIENT, async () => {
      const server = await startPostgres();
      atEnd(() => server.stop());
      await assertUpgradedAndBack(await postgresStore(server), older, newer);
    });
  });
