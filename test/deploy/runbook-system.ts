// Starts the servers and programs that the runbook's commands need, with events in the queue, the warehouse and
// quarantine.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { GENEROUS_MS } from '../support/deadline.ts';
import { freePort } from '../support/free-port.ts';
import { environment, event, PATIENT, TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { startPrivatePostgres } from '../support/postgres.ts';
import { Program } from '../support/program.ts';
import { TestCluster } from '../support/redis-cluster.ts';
import { TestRedis } from '../support/redis.ts';
import { rule } from '../support/redis-rights.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { postgresStore } from '../support/warehouse-store.ts';
import { tool } from '../support/tool.ts';
import { RunningPrometheus } from './running-prometheus.ts';

const BIN = new URL('../../bin/', import.meta.url).pathname;

export const LAST_NAME = '18446744073709551615-18446744073709551615';

export type RunbookSystem = Awaited<ReturnType<typeof startRunbookSystem>>;

export async function startRunbookSystem() {
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
  for (const node of cluster.nodes) await node.command('ACL', 'SETUSER', 'ingest-operator', ...rule('ingest-operator'));
  const consumerUrl = await new Program('ingest-consumer', { env: as('ingest-consumer') }).listening();
  const gateway = await TestGateway.start(redis, pki, as('ingest-gateway'));
  const targets = { 'ingest-gateway': `127.0.0.1:${admin}`, 'ingest-consumer': `127.0.0.1:${consumerPort}` };
  const { url: prometheusUrl } = await RunningPrometheus.start(targets);

  const programs = temporaryFolder('runbook-programs-');
  const wrap = (name: string, script: string): void =>
    writeFileSync(join(programs, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  wrap('redis-cli', `exec ${tool('redis-cli', 'redis-tools')} -p ${redis.port} ${OPERATOR} "$@"`);
  for (const name of ['ingest-gateway', 'ingest-consumer', 'ingest-admin']) {
    // ingest-admin asks before it changes anything, and `--yes` answers.
    const yes = name === 'ingest-admin' ? ' --yes' : '';
    wrap(name, `INGEST_QUEUE_URI=${uriOf(redis, name)} exec ${BIN}${name}${yes} "$@"`);
  }
  /** The folder in which the commands run, with certificates, lists of ids, and a SQLite warehouse. */
  const folder = temporaryFolder('runbook-');
  execFileSync(tool('sqlite3', 'sqlite3'), [join(folder, 'warehouse.db'), 'CREATE TABLE events (id TEXT)']);
  writeFileSync(join(folder, 'F'), 'e-1\n');
  writeFileSync(join(folder, 'erased-ids'), 'e-3\n');
  for (const name of ['server.pem', 'crl.pem']) copyFileSync(pki.path(name), join(folder, name));

  const client = gateway.client(await pki.producer('shop'));
  await client.post(event('e-0'));
  await eventually('the tables are there', async () => (await store.count()) > 0);
  await store.refuse('refused.type', true);
  for (const id of ['e-1', 'e-2', 'e-3']) await client.post(event(id));
  for (const id of ['r-1', 'r-2']) await client.post(event(id, { type: 'refused.type' }));
  await redis.command('XADD', 'ingest', '*', 'producer', 'shop', 'body', 'no event');
  await eventually('what cannot land is in quarantine', async () => (await store.quarantine()).length === 3);
  await store.refuse('refused.type', false);

  const path = [programs, BIN, server.programs, process.env['PATH'] ?? ''].join(delimiter);
  const options = { cwd: folder, env: environment({ ...env, PATH: path }), timeout: GENEROUS_MS } as const;
  return {
    ...{ cluster, store, gateway, consumerUrl, prometheusUrl },
    /** Adds the entry after which no other fits, and waits until the gateway names the cure and a consumer is done. */
    endStream: async (): Promise<void> => {
      await redis.command('XADD', 'ingest', LAST_NAME, 'producer', 'shop', 'body', 'no event');
      assert.equal((await client.post(event('refused'))).status, 503);
      const ready = async (): Promise<string> => (await fetch(`http://127.0.0.1:${admin}/health/ready`)).text();
      await eventually('the gateway is not ready', async () => (await ready()).includes('the last possible name'));
      await eventually('the entry is in quarantine', async () =>
        (await store.quarantine()).some(({ entry }) => entry.includes(LAST_NAME)),
      );
    },
    run(command: string): { readonly status: number | null; readonly text: string } {
      const { status, stdout, stderr } = spawnSync('sh', ['-c', command], { ...options, encoding: 'utf8' });
      return { status, text: stdout + stderr };
    },
  };
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
