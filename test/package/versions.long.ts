// Follows the runbook's upgrade chapter under load, from the version that landed last, and goes back: with packages,
// and with checkouts.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { TestClient, TestProcess } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { startPostgres } from '../support/postgres.ts';
import { ProducerLoad } from '../support/load.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { postgresStore, sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';
import { cloneOfBase, Installation, makePackages, NODE_ON_PATH, ROOT } from './installation.ts';

const PATIENT = { timeout: 600_000 };

type Version = Pick<Installation, 'root' | 'folder' | 'program'>;

const checkoutIn = (root: string): Version => ({ root, folder: root, program: (name) => join(root, 'bin', name) });

/** Types the command of the chapter that adds a second checkout. */
function secondCheckout(clone: string): Version {
  const [, command = ''] = /`(git worktree add \.\.\/new) TAG`/.exec(readFileSync('deploy/RUNBOOK.md', 'utf8')) ?? [];
  const head = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: ROOT, encoding: 'utf8' });
  execFileSync('sh', ['-ec', `${command} ${head}`], { cwd: clone, stdio: 'ignore' });
  symlinkSync(join(ROOT, 'node_modules'), join(clone, '../new/node_modules'));
  return checkoutIn(join(clone, '../new'));
}

interface Running {
  readonly process: TestProcess;
  /** The number of events that it has accepted or landed. */
  readonly taken: () => Promise<number>;
}

const valueOf = (metrics: string, name: string): number =>
  Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(metrics)?.[1]);

/** Returns the arguments of ACL SETUSER for each user in the version's install.md. */
const usersOf = ({ root }: Version): readonly string[] =>
  [...readFileSync(join(root, 'deploy/install.md'), 'utf8').matchAll(/^ACL SETUSER (ingest-.*)$/gm)].map(
    ([, user = '']) => user.replace('>PASSWORD', '>secret'),
  );

const AS_OPERATOR = '--user ingest-operator --pass secret --no-auth-warning';

async function startFleet(store: WarehouseStore, older: Version) {
  const aclFile = join(temporaryFolder(), 'users.acl');
  writeFileSync(aclFile, 'user default on nopass ~* &* +@all\n');
  const [redis, pki] = await Promise.all([TestRedis.start(['--aclfile', aclFile]), Pki.create()]);
  for (const user of usersOf(older)) await redis.command('ACL', 'SETUSER', ...user.split(' '));
  const producer = await pki.producer('shop');
  const env = {
    ...NODE_ON_PATH,
    ...pki.environment,
    INGEST_WAREHOUSE_URI: store.uri,
    INGEST_STATE_DIR: temporaryFolder('ingest-state-'),
    INGEST_ENQUEUE_TIMEOUT_MS: '5000',
    INGEST_GATEWAY_ADDR: '127.0.0.1:0',
    INGEST_CONSUMER_ADDR: '127.0.0.1:0',
  };
  const envOf = (name: string) => ({ ...env, INGEST_QUEUE_URI: `redis://${name}:secret@127.0.0.1:${redis.port}` });
  const start = (version: Version, name: string, ...args: readonly string[]): TestProcess =>
    new TestProcess(version.program(name), args, envOf(name), { cwd: version.folder });
  const clients = new Map<TestProcess, TestClient>();
  let posts = 0;
  return {
    post: (body: string) => {
      const client = [...clients.values()][(posts += 1) % clients.size];
      assert.ok(client !== undefined, 'a gateway runs');
      return client.post(body);
    },
    gateway: async (version: Version): Promise<Running> => {
      const process = start(version, 'ingest-gateway');
      const port = Number(/https:\/\/[^"]*:(\d+)/.exec(await process.line(/listening on https/))?.[1]);
      const client = new TestClient(port, pki.authority.certificate, producer, {});
      clients.set(process, client);
      const taken = async () => valueOf((await client.ask({ path: '/metrics' })).body, 'ingest_accepted_total');
      return { process, taken };
    },
    consumer: async (version: Version): Promise<Running> => {
      const process = start(version, 'ingest-consumer');
      const url = /http:\/\/[\d.:]+/.exec(await process.line(/listening on http/))?.[0] ?? '';
      const taken = async () => valueOf(await (await fetch(`${url}/metrics`)).text(), 'ingest_landed_total');
      return { process, taken };
    },
    /** Runs a program to its end, and returns its last line. */
    run: async (exit: number, ...command: Parameters<typeof start>): Promise<string> => {
      const program = start(...command);
      assert.equal((await program.exited(60_000)).code, exit, program.output);
      return program.lines.at(-1) ?? '';
    },
    /** Types the command of the chapter that adds the rights of a version. */
    addRights: ({ root }: Version): void => {
      const [, command = ''] = /^ *(sed -n .*) \| redis-cli$/m.exec(readFileSync('deploy/RUNBOOK.md', 'utf8')) ?? [];
      const typed = command.replace('/opt/ingest-new/usr/lib/ingest-gateway', root);
      const cli = `redis-cli -p ${redis.port} ${AS_OPERATOR}`;
      assert.match(execFileSync('sh', ['-c', `${typed} | ${cli}`], { encoding: 'utf8' }), /^(OK\n){5}$/);
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

async function assertUpgradedAndBack(store: WarehouseStore, older: Version, newer: Version): Promise<void> {
  const fleet = await startFleet(store, older);
  const first = { consumer: await fleet.consumer(older), gateway: await fleet.gateway(older) };
  const load = new ProducerLoad(fleet, 'e', 4);
  await allTake(first.gateway, first.consumer);

  const users = usersOf(older);
  for (const user of usersOf(newer)) {
    const [name = ''] = user.split(' ');
    if (/admin|operator/.test(name)) continue;
    const last = await fleet.run(users.includes(user) ? 0 : 4, newer, name, '--check=connect');
    assert.equal(last === 'the configuration is good', users.includes(user), last);
  }
  fleet.addRights(newer);
  for (const name of ['ingest-consumer', 'ingest-gateway'])
    assert.equal(await fleet.run(0, newer, name, '--check=connect'), 'the configuration is good');
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
  await fleet.run(0, newer, 'ingest-admin', 'reconcile');
}

describe('gateways and consumers of this version and of the previous one', () => {
  let clone: string;

  before(() => {
    clone = cloneOfBase();
  }, PATIENT);

  it('share a queue and a SQLite file, forward and back, from checkouts: each event has one row', PATIENT, () =>
    assertUpgradedAndBack(sqliteStore(), checkoutIn(clone), secondCheckout(clone)),
  );

  it('share a queue and PostgreSQL, forward and back, from packages: each event has one row', PATIENT, async () => {
    const older = new Installation(makePackages(clone), 'ingest-gateway');
    const newer = new Installation(makePackages(), 'ingest-gateway');
    const server = await startPostgres();
    atEnd(() => server.stop());
    await assertUpgradedAndBack(await postgresStore(server), older, newer);
  });
});
