// One stream of a queue, for tests that open only one side of it.
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { Clock } from '../../lib/process/clock.ts';
import { createLog } from '../../lib/process/log.ts';
import { type Durability, type QueueObserver, StreamQueue } from '../../lib/redis/accept/stream-queue.ts';
import { StreamAdmin } from '../../lib/redis/admin/stream-admin.ts';
import { memberName, StreamReader } from '../../lib/redis/read/stream-reader.ts';
import { RedisConnection } from '../../lib/redis/server/connection.ts';
import { queueIdentity, type IdentityOptions } from '../../lib/redis/stream/queue-metadata.ts';
import { queuePartitions, type QueuePartition } from '../../lib/redis/stream/queue-partitions.ts';
import { atEnd, eventually } from './scope.ts';
import { SYSTEM } from './system.ts';

export const QUIET_LOG = createLog('test', 'error').child({}, { level: 'silent' });

/** Returns a log, and the lines that it receives at a level. */
export function logged(t: TestContext, level: 'info' | 'warn' | 'error') {
  const log = QUIET_LOG.child({}, { level: 'silent' });
  const lines: (Readonly<Record<string, unknown>> & { readonly msg: string })[] = [];
  t.mock.method(log, level, (fields: object, msg: string) => lines.push({ ...fields, msg }));
  return { log, lines };
}

export const WARN: Durability = { level: 'warn', replicas: 0, connections: [] };

export function partitionAt(
  uri: string,
  change: Partial<QueuePartition> = {},
  about: Partial<IdentityOptions> = {},
): QueuePartition {
  const [part] = queuePartitions(uri, 1, SYSTEM) as [QueuePartition];
  const { stream = part.stream, makes = true } = change;
  const identify: QueuePartition['identify'] = (server, known) =>
    queueIdentity(server, stream, { random: SYSTEM.random, makes, known, ...about });
  return { ...part, identify, ...change };
}

interface OpenOptions extends Partial<QueuePartition> {
  readonly clock?: Clock;
  /** The default is long enough that a busy machine causes no timeout. */
  readonly enqueueTimeoutMs?: number;
  readonly observer?: QueueObserver;
  /** The default closes the queue after all tests of the file. */
  readonly after?: (close: () => Promise<void>) => void;
}

/** Opens the accepting side, and waits until it is available. */
export async function openQueue(uri: string, options: OpenOptions = {}): Promise<StreamQueue> {
  const { clock = SYSTEM.clock, enqueueTimeoutMs = 10_000, observer = {}, after = atEnd, ...part } = options;
  const connection = new RedisConnection({ ...SYSTEM, clock, uri, name: 'test', log: QUIET_LOG });
  const queue = new StreamQueue({
    ...{ clock, connection, enqueueTimeoutMs, observer, log: QUIET_LOG, durability: WARN },
    part: partitionAt(uri, part),
  });
  after(() => queue.close());
  connection.open();
  await eventually('the queue is there', async () => connection.ready && (await queue.probe()).available);
  return queue;
}

/** Opens a queue that waits for replicas, and further connections for that. They may not be ready yet. */
export function openReplicated(
  end: Ending,
  uri: string,
  { replicas = 1, writing = 1, clock = SYSTEM.clock, enqueueTimeoutMs = 10_000, log = QUIET_LOG } = {},
) {
  const connect = (): RedisConnection => new RedisConnection({ clock, uri, name: 'test', log: QUIET_LOG });
  const [connection, connections] = [connect(), Array.from({ length: writing }, connect)];
  const durability = { level: 'warn', replicas, connections } as const;
  const queue = new StreamQueue({ clock, connection, enqueueTimeoutMs, log, durability, part: partitionAt(uri) });
  end.after(() => queue.close());
  connection.open();
  return { queue, connections: [connection, ...connections] };
}

/** A test, or a file of tests, that closes what it opened when it ends. */
interface Ending {
  after(close: () => unknown): unknown;
}

/** Opens a connection, and waits until it is ready. */
export async function connectedTo(uri: string, end: Ending = { after: atEnd }): Promise<RedisConnection> {
  const connection = new RedisConnection({ ...SYSTEM, uri, name: 'test', log: QUIET_LOG });
  end.after(() => connection.close());
  connection.open();
  await eventually('it is connected', () => connection.ready);
  return connection;
}

/** Opens the reading side as a member of the group. */
export async function openReader(
  end: Ending,
  uri: string,
  change: Partial<QueuePartition> = {},
): Promise<StreamReader> {
  const part = partitionAt(uri, change);
  const reader = new StreamReader({ ...SYSTEM, name: memberName(SYSTEM.random), part, log: QUIET_LOG });
  end.after(() => reader.close());
  assert.equal(await reader.open(20_000), true, reader.lastError);
  await reader.join();
  return reader;
}

export function openAdmin(end: Ending, uri: string, change: Partial<QueuePartition> = {}): StreamAdmin {
  const admin = new StreamAdmin({ ...SYSTEM, part: partitionAt(uri, change), log: QUIET_LOG });
  end.after(() => admin.close());
  return admin;
}
