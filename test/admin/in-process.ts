// Runs the commands of ingest-admin in the test's own process, on a real Redis queue and a real SQLite warehouse.
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { before, beforeEach, type TestContext } from 'node:test';
import { readCommandLine } from '../../lib/admin/command-line.ts';
import type { Session } from '../../lib/admin/session.ts';
import { Consumer, type ConsumerOptions } from '../../lib/consumer/consumer.ts';
import { LandingSlots } from '../../lib/consumer/landing.ts';
import { consumerMetrics } from '../../lib/consumer/metrics.ts';
import { readSchema } from '../../lib/consumer/schemas.ts';
import type { QueueReader } from '../../lib/ingest/queue.ts';
import type { QueueAdmin } from '../../lib/ingest/queue-admin.ts';
import type { LandingEvent, QuarantinedEntry, Warehouse } from '../../lib/ingest/warehouse.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { messageOf } from '../../lib/process/message-of.ts';
import { queueAdmin } from '../../lib/redis/admin/stream-admin.ts';
import { createSqliteAdmin } from '../../lib/sqlite/admin.ts';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { openQueue, openReader, QUIET_LOG as log } from '../support/partition.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { sqliteStore, type SqliteStore } from '../support/warehouse-store.ts';
import { SYSTEM } from '../support/system.ts';

export interface Ended {
  readonly code: number | undefined;
  readonly failure: unknown;
  readonly out: string;
  /** What the command told, and the message of its failure. */
  readonly err: string;
  readonly questions: readonly string[];
}

/** Expected output: a text or a pattern, both with `<time>` for times, or the value of --json. */
type Expected = string | RegExp | object;

const timeless = (text: string): string => text.replaceAll(/(?<!\d)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, '<time>');

function assertShown(text: string, expected: Expected): void {
  if (typeof expected === 'string') assert.equal(timeless(text), expected);
  else if (expected instanceof RegExp) assert.match(timeless(text), expected);
  else assert.deepEqual(JSON.parse(timeless(text)), expected);
}

/** Refuses every confirmation. */
export const no = (): Promise<boolean> => Promise.resolve(false);

export interface Replaced {
  readonly calls?: (real: QueueReader) => Partial<QueueReader>;
  readonly rows?: Partial<Warehouse>;
  readonly schemas?: ConsumerOptions['schemas'];
}

/** Runs a command line in this process, because a program costs a third of a second of CPU time. */
export async function runCommand(
  parts: Pick<Session, 'queue' | 'warehouse'> & Partial<Session>,
  args: readonly string[],
): Promise<Ended> {
  const read = readCommandLine(args, Date.now());
  assert.ok(typeof read === 'object');
  const questions: string[] = [];
  const shown = { out: '', err: '' };
  const session: Session = {
    ...SYSTEM,
    sides: ['queue', 'warehouse'],
    json: read.json,
    readSchema: (path: string) => readSchema(path, SYSTEM.clock),
    print: (text: string) => void (shown.out += text),
    printed: () => Promise.resolve(true),
    tell: (text: string) => void (shown.err += `${text}\n`),
    stopped: new AbortController().signal,
    progress: () => undefined,
    ...parts,
    confirm: async (question: string): Promise<boolean> => {
      questions.push(question);
      return parts.confirm?.(question) ?? true;
    },
  };
  let failure: unknown;
  const done = await read.run(session).catch((cause: unknown) => {
    failure = cause;
    shown.err += messageOf(cause);
    return undefined;
  });
  return { code: done === undefined ? undefined : Number(!done), failure, ...shown, questions };
}

export class InProcess {
  redis!: TestRedis;
  store!: SqliteStore;
  path = '';
  warehouse!: Warehouse;

  /** Registers hooks that start Redis once and give each test an empty queue and an empty warehouse. */
  constructor() {
    before(async () => {
      this.redis = await TestRedis.start(['--appendonly', 'no']);
    });
    beforeEach(async (t) => {
      await this.redis.command('FLUSHALL');
      this.store = sqliteStore();
      this.path = this.store.uri.slice('sqlite:'.length);
      const warehouse = (this.warehouse = createSqliteWarehouse({ path: this.path }));
      (t as TestContext).after(() => warehouse.close());
      await this.warehouse.prepare();
    });
  }

  queue(t: TestContext, uri: string, system = SYSTEM): QueueAdmin {
    const queue = queueAdmin({ ...system, uri, partitions: 1, log });
    t.after(() => Promise.all(queue.streams.map((stream) => stream.close())));
    return queue;
  }

  /** A queue without a server. Its time limits last a fiftieth. */
  away(t: TestContext, uri = 'redis://127.0.0.1:1'): QueueAdmin {
    const after: Clock['after'] = (ms, run) => SYSTEM.clock.after(ms / 50, run);
    return this.queue(t, uri, { ...SYSTEM, clock: { ...SYSTEM.clock, after } });
  }

  session(t: TestContext): Pick<Session, 'queue' | 'warehouse'> {
    const warehouse = createSqliteAdmin(this.path, SYSTEM.clock);
    t.after(() => warehouse.close());
    return { queue: this.queue(t, this.redis.uri), warehouse };
  }

  run(t: TestContext, line: string, change: Partial<Session> = {}): Promise<Ended> {
    return runCommand({ ...this.session(t), ...change }, line.split(' '));
  }

  /** Runs a command, which must end with this code, or reject with this error. */
  async assertShows(
    t: TestContext,
    line: string,
    exit: number | (new () => Error),
    out?: Expected,
    err?: Expected,
    change: Partial<Session> = {},
  ): Promise<Ended> {
    const ended = await this.run(t, line, change);
    if (typeof exit === 'number') assert.equal(ended.code, exit, ended.out + ended.err);
    else assert.ok(ended.failure instanceof exit, ended.out + ended.err);
    if (out !== undefined) assertShown(ended.out, out);
    if (err !== undefined) assertShown(ended.err, err);
    return ended;
  }

  async consume(
    t: TestContext,
    { calls, rows, schemas }: Replaced = {},
  ): Promise<{ readonly stop: () => Promise<void> }> {
    const real: QueueReader = await openReader({ after: () => undefined }, this.redis.uri);
    const changed = new Map<unknown, unknown>(Object.entries(calls?.(real) ?? {}));
    const reader = new Proxy(real, {
      get: (of, name) => {
        const value: unknown = changed.get(name) ?? Reflect.get(of, name, of);
        return typeof value === 'function' ? (value.bind(of) as unknown) : value;
      },
    });
    const consumer = new Consumer({
      ...SYSTEM,
      reader,
      warehouse: { ...this.warehouse, ...rows },
      telemetry: { metrics: consumerMetrics(SYSTEM.clock), log },
      limits: { batchMax: 100, replicasMax: 6, streams: 1, slots: new LandingSlots() },
      schemas,
    });
    const done = consumer.run();
    const stop = async (): Promise<void> => {
      consumer.stop();
      await done;
      await real.close();
    };
    t.after(stop);
    return { stop };
  }

  async landed(): Promise<void> {
    await eventually('all entries are acknowledged', async () => {
      const [group] = (await this.redis.command('XINFO', 'GROUPS', 'ingest')) as unknown[][];
      return ['pending', 'lag'].every((name) => group?.[group.indexOf(name) + 1] === 0);
    });
  }

  async accept(t: TestContext, id: string, body: string, producer = 'shop'): Promise<void> {
    const queue = await openQueue(this.redis.uri, { after: t.after.bind(t) });
    await new Promise((settle) => queue.submit({ id, producer, body: Buffer.from(body), settle }));
  }

  /** Returns command, selection and count of each record. */
  audit(): readonly unknown[] {
    const records = this.rows('SELECT command, what, changed FROM ingest_audit ORDER BY at, rowid');
    return records.map((row) => Object.values(row));
  }

  rows(sql: string): readonly Readonly<Record<string, unknown>>[] {
    using database = new DatabaseSync(this.path, { readOnly: true });
    return database
      .prepare(sql)
      .all()
      .map((row) => ({ ...row }));
  }

  /** Returns the first column. */
  column(sql: string): readonly unknown[] {
    return this.rows(sql).map((row) => Object.values(row)[0]);
  }

  sql(statement: string): void {
    using database = new DatabaseSync(this.path, { timeout: 5_000 });
    database.exec(statement);
  }
}

export const landing = (id: string, change: Partial<LandingEvent> = {}): LandingEvent => ({
  id,
  type: 't',
  producer: 'shop',
  body: Buffer.from(`{"id":"${id}","type":"t"}`),
  acceptedAtMs: 1,
  ...change,
});

export const poison = (entry: string, change: Partial<QuarantinedEntry> = {}): QuarantinedEntry => ({
  entry: `q/ingest/${entry}`,
  producer: 'shop',
  reason: 'invalid_event: x',
  acceptedAtMs: 1,
  body: Buffer.from('{'),
  ...change,
});
