// What an operator waits for on a large warehouse: the time and the memory of ingest-admin's commands, each a process
// of its own, as they are started by hand. The goal is 2 s and 150 MB on ten million events and a million rows of the
// quarantine. The tables are filled by the database itself.
//
//   bin/node bench/large-warehouse.ts [events] [quarantined] [PostgreSQL|SQLite]
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { createPostgresWarehouse } from '../lib/postgres/warehouse.ts';
import { createSqliteWarehouse } from '../lib/sqlite/warehouse.ts';
import { startPrivatePostgres } from '../test/support/postgres.ts';
import { SYSTEM } from '../test/support/system.ts';
import { BenchEnvironment, ROOT } from './bench-environment.ts';

const EVENTS = Number(process.argv[2] ?? 10_000_000);
const QUARANTINED = Number(process.argv[3] ?? 1_000_000);
/** The warehouse to measure; all by default. */
const ONLY = process.argv[4];
const ROUNDS = 3;
const GOAL = { ms: 2_000, megabytes: 150 };
const POLL_MS = 5;

/** Of a hundred thousand rows one has the rare reason. */
const REASON = (at: string): string =>
  `CASE WHEN ${at} % 100000 = 7 THEN 'schema: /x' WHEN ${at} % 3 = 0 THEN 'id_conflict: x' ELSE 'invalid_event: x' END`;

const COMMANDS: readonly string[] = [
  'status',
  `event id-${EVENTS >> 1}`,
  'event none',
  'quarantine list --limit 1000',
  `quarantine list --limit ${QUARANTINED} --json`,
  'quarantine list --reason schema',
  `quarantine list --reason id_conflict --limit ${QUARANTINED} --json`,
  `erase id-${EVENTS >> 2} --yes`,
];

interface Large {
  readonly name: string;
  readonly uri: string;
  readonly end: () => Promise<void>;
}

async function postgres(folder: string): Promise<Large> {
  const server = await startPrivatePostgres({ durable: false, under: folder });
  const uri = await server.freshDatabase();
  const warehouse = createPostgresWarehouse({ ...SYSTEM, uri, connectionsMax: 1 });
  await warehouse.prepare();
  await warehouse.close();
  const body = `'{"id":"id-' || at || '","type":"order.paid","data":"' || repeat('x', 60) || '"}'`;
  await server.query(
    uri,
    `INSERT INTO events (id, type, producer, accepted_at, landed_at, body)
     SELECT 'id-' || at, 'order.paid', 'shop', now(), now() + at * interval '1 ms', ${body}
     FROM generate_series(1, ${EVENTS}) AS at`,
  );
  await server.query(
    uri,
    `INSERT INTO events_quarantine (entry, id, producer, reason, accepted_at, quarantined_at, body)
     SELECT 'q/ingest/' || at, 'bad-' || at, 'shop', ${REASON('at')}, now(), now() + at * interval '1 ms', '{'
     FROM generate_series(1, ${QUARANTINED}) AS at`,
  );
  await server.query(uri, 'VACUUM ANALYZE');
  return { name: 'PostgreSQL', uri, end: () => server.stop() };
}

async function sqlite(folder: string): Promise<Large> {
  const path = join(folder, 'warehouse.db');
  const warehouse = createSqliteWarehouse({ path });
  await warehouse.prepare();
  await warehouse.close();
  const file = new DatabaseSync(path);
  const series = (count: number): string =>
    `WITH RECURSIVE series (at) AS (SELECT 1 UNION ALL SELECT at + 1 FROM series WHERE at < ${count})`;
  const time = `strftime('%Y-%m-%dT%H:%M:%fZ', 1700000000 + at / 1000.0, 'unixepoch')`;
  file.exec(`PRAGMA synchronous = OFF;
    ${series(EVENTS)} INSERT INTO events (id, type, producer, accepted_at, landed_at, body)
      SELECT 'id-' || at, 'order.paid', 'shop', ${time}, ${time}, '{"id":"id-' || at || '","type":"order.paid"}'
      FROM series;
    ${series(QUARANTINED)}
      INSERT INTO events_quarantine (entry, id, producer, reason, accepted_at, quarantined_at, body)
      SELECT 'q/ingest/' || at, 'bad-' || at, 'shop', ${REASON('at')}, ${time}, ${time}, x'7b' FROM series;`);
  file.close();
  return { name: 'SQLite', uri: `sqlite:${path}`, end: () => Promise.resolve() };
}

interface Cost {
  readonly ms: number;
  readonly megabytes: number;
}

async function run(command: string, queue: string, uri: string): Promise<Cost> {
  const from = performance.now();
  const child = spawn(join(ROOT, 'bin/ingest-admin'), command.split(' '), {
    env: { ...process.env, INGEST_QUEUE_URI: queue, INGEST_WAREHOUSE_URI: uri },
    stdio: ['ignore', 'ignore', 'ignore'],
  });
  let kilobytes = 0;
  const look = setInterval(() => {
    try {
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
      kilobytes = Math.max(kilobytes, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0));
    } catch {
      // It has ended.
    }
  }, POLL_MS);
  await once(child, 'exit');
  clearInterval(look);
  return { ms: performance.now() - from, megabytes: kilobytes / 1024 };
}

const environment = await BenchEnvironment.create();
const redis = await environment.redis();
const folder = join(environment.folder, 'large');
mkdirSync(folder);
execFileSync('chmod', ['-R', 'a+rx', environment.folder]);
const makers: Readonly<Record<string, () => Promise<Large>>> = {
  PostgreSQL: () => postgres(folder),
  SQLite: () => sqlite(folder),
};
try {
  for (const [name, make] of Object.entries(makers)) {
    if (ONLY !== undefined && name !== ONLY) continue;
    const large = await make();
    for (const command of COMMANDS) {
      const costs: Cost[] = [];
      for (let round = 0; round < ROUNDS; round += 1)
        costs.push(await run(command, `redis://127.0.0.1:${redis.port}`, large.uri));
      const ms = Math.min(...costs.map((cost) => cost.ms));
      const megabytes = Math.max(...costs.map((cost) => cost.megabytes));
      const verdict = ms <= GOAL.ms && megabytes <= GOAL.megabytes ? 'within the goal' : 'over the goal';
      process.stdout.write(
        `${large.name}, ${EVENTS} events, ${QUARANTINED} quarantined: ${command}: ` +
          `${(ms / 1_000).toFixed(2)} s, ${megabytes.toFixed(0)} MB, ${verdict}\n`,
      );
    }
    await large.end();
  }
} finally {
  await redis.stop();
  rmSync(environment.folder, { recursive: true, force: true });
}
process.exit(0);
