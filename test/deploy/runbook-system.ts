// Starts the servers and programs that the runbook's commands need, with events in the queue, the warehouse and
// quarantine.
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { WITHIN_MS } from '../support/deadline.ts';
import { freePort } from '../support/free-port.ts';
import { environment, event, PATIENT, TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { startPrivatePostgres } from '../support/postgres.ts';
import { Program } from '../support/program.ts';
import { TestCluster } from '../support/redis-cluster.ts';
import { TestRedis } from '../support/redis.ts';
import { rule } from '../support/redis-rights.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { postgresStore, type WarehouseStore } from '../support/warehouse-store.ts';
import { tool } from './deploy-files.ts';
import { RunningPrometheus } from './running-prometheus.ts';

const BIN = new URL('../../bin/', import.meta.url).pathname;

export class RunbookSystem {
  /** The folder in which the commands run, with certificates, lists of ids, and a SQLite warehouse. */
  readonly folder = temporaryFolder('runbook-');
  readonly #programs = temporaryFolder('runbook-programs-');
  readonly redis: TestRedis;
  readonly cluster: TestCluster;
  readonly store: WarehouseStore;
  readonly gateway: TestGateway;
  readonly consumerUrl: string;
  readonly prometheusUrl: string;
  readonly #env: Readonly<Record<string, string>>;

  private constructor(
    parts: Pick<RunbookSystem, 'redis' | 'cluster' | 'store' | 'gateway' | 'consumerUrl' | 'prometheusUrl'>,
    env: Readonly<Record<string, string>>,
    psql: string,
  ) {
    ({
      redis: this.redis,
      cluster: this.cluster,
      store: this.store,
      gateway: this.gateway,
      consumerUrl: this.consumerUrl,
      prometheusUrl: this.prometheusUrl,
    } = parts);
    this.#env = { ...env, PATH: [this.#programs, BIN, psql, process.env['PATH'] ?? ''].join(delimiter) };
    this.#wrap('redis-cli', `exec ${tool('redis-cli', 'redis-tools')} -p ${parts.redis.port} ${OPERATOR} "$@"`);
    for (const name of ['ingest-gateway', 'ingest-consumer', 'ingest-admin']) {
      // ingest-admin asks before it changes anything, and `--yes` answers.
      const yes = name === 'ingest-admin' ? ' --yes' : '';
      this.#wrap(name, `INGEST_QUEUE_URI=${uriOf(parts.redis, name)} exec ${BIN}${name}${yes} "$@"`);
    }
    execFileSync(tool('sqlite3', 'sqlite3'), [join(this.folder, 'warehouse.db'), 'CREATE TABLE events (id TEXT)']);
    writeFileSync(join(this.folder, 'F'), 'e-1\n');
    writeFileSync(join(this.folder, 'erased-ids'), 'e-3\n');
    for (const name of ['server.pem', 'crl.pem']) copyFileSync(parts.gateway.pki.path(name), join(this.folder, name));
  }

  static async start(): Promise<RunbookSystem> {
    const [redis, pki, cluster] = await Promise.all([redisWithUsers(), Pki.create(), TestCluster.start()]);
    const server = await startPrivatePostgres({ durable: false });
    atEnd(() => server.stop());
    const store = await postgresStore(server);
    const [admin, consumerPort] = [await freePort(), await freePort()];
    const env = {
      ...PATIENT,
      ...pki.environment,
      INGEST_TLS_CLIENT_CRL: pki.write('crl.pem', await pki.authority.revocationList([])),
      INGEST_ADMIN_ADDR: `127.0.0.1:${admin}`,
      INGEST_CONSUMER_ADDR: `127.0.0.1:${consumerPort}`,
      INGEST_WAREHOUSE_URI: store.uri,
    };
    const as = (user: string) => ({ ...env, INGEST_QUEUE_URI: uriOf(redis, user) });
    for (const node of cluster.nodes)
      await node.command('ACL', 'SETUSER', 'ingest-operator', ...rule('ingest-operator'));
    const consumer = new Program('ingest-consumer', { env: as('ingest-consumer') });
    const consumerUrl = await consumer.listening();
    const gateway = await TestGateway.start(redis, pki, as('ingest-gateway'));
    const prometheus = await RunningPrometheus.start({
      'ingest-gateway': `127.0.0.1:${admin}`,
      'ingest-consumer': `127.0.0.1:${consumerPort}`,
    });
    const parts = { redis, cluster, store, gateway, consumerUrl, prometheusUrl: prometheus.url };
    const system = new RunbookSystem(parts, env, server.programs);
    await system.#fill(await pki.producer('shop'));
    return system;
  }

  async entry(): Promise<string> {
    return (await this.store.quarantine())[0]?.entry ?? '';
  }

  run(command: string): { readonly status: number | null; readonly text: string } {
    const { status, stdout, stderr } = spawnSync('sh', ['-c', command], {
      cwd: this.folder,
      env: environment(this.#env),
      encoding: 'utf8',
      timeout: WITHIN_MS,
    });
    return { status, text: stdout + stderr };
  }

  async #fill(producer: Awaited<ReturnType<Pki['producer']>>): Promise<void> {
    const { store, redis } = this;
    const client = this.gateway.client(producer);
    await client.post(event('e-0'));
    await eventually('the tables are there', async () => (await store.count()) > 0);
    await store.refuse('refused.type', true);
    for (const id of ['e-1', 'e-2', 'e-3']) await client.post(event(id));
    for (const id of ['r-1', 'r-2']) await client.post(event(id, { type: 'refused.type' }));
    await redis.command('XADD', 'ingest', '*', 'producer', 'shop', 'body', 'no event');
    const quarantined = async (): Promise<boolean> => (await store.quarantine()).length === 3;
    await eventually('what cannot land is in quarantine', quarantined);
    await store.refuse('refused.type', false);
  }

  #wrap(name: string, script: string): void {
    const path = join(this.#programs, name);
    writeFileSync(path, `#!/bin/sh\n${script}\n`);
    chmodSync(path, 0o755);
  }
}

/** redis-cli logs in as the user that the runbook names. */
const OPERATOR = '--user ingest-operator --pass secret --no-auth-warning';
const USERS = ['ingest-gateway', 'ingest-consumer', 'ingest-admin', 'ingest-operator'] as const;

const uriOf = ({ port }: TestRedis, user: string): string => `redis://${user}:secret@127.0.0.1:${port}`;

/** Starts a Redis server with an ACL file. The test itself connects as the default user. */
function redisWithUsers(): Promise<TestRedis> {
  const users = join(temporaryFolder('runbook-users-'), 'users.acl');
  const lines = USERS.map((name) => `user ${name} ${rule(name).join(' ')}\n`);
  writeFileSync(users, `user default on nopass ~* &* +@all\n${lines.join('')}`);
  return TestRedis.start(['--aclfile', users]);
}

export const promtool = (): string => join(dirname(tool('promtool', 'prometheus')), 'promtool');
