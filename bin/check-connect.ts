// What `--check=connect` finds out about the queue and the warehouse by asking them.
import { accessSync, constants, opendirSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { errno } from '../lib/process/env.ts';
import { RETENTION_MS } from '../lib/ingest/queue.ts';
import { TablesDiffer } from '../lib/ingest/warehouse.ts';
import type { Partitions } from '../lib/postgres/migrations.ts';
import { maskedUri } from '../lib/process/masked-uri.ts';
import { createLog } from '../lib/process/log.ts';
import { EXIT, StartFailure } from '../lib/process/program.ts';
import type { Key } from '../lib/process/settings.ts';
import { type Server, byteConnection } from '../lib/redis/server/client.ts';
import {
  isPasswordRefused,
  messageOf,
  PartitionsDiffer,
  queueIsAway,
  RedisError,
  type QueueRefusal,
} from '../lib/redis/wire/errors.ts';
import { serverInfo, serverName } from '../lib/redis/server/facts.ts';
import { queuePartitions, type QueuePartition } from '../lib/redis/stream/queue-partitions.ts';
import type { RedisValue } from '../lib/redis/wire/reply.ts';
import { assertRights } from '../lib/redis/stream/rights.ts';
import { Script } from '../lib/redis/wire/script.ts';
import { inspectSchema, openWarehouse } from './warehouse-adapter.ts';
import { SYSTEM } from './system.ts';

const CONNECT_MS = 5_000;
/** Called without events it writes nothing, and is refused as an event would be. */
const ACCEPT = new Script('accept.lua', 'entry-name.lua');

/** For connections whose troubles are the result: their own lines would only repeat it. */
export const quietLog = createLog('check', 'error');

/** A failed start because of the queue (exit 4), with the masked URI. */
export const queueFailure = (uri: string, why: string, key: Key = 'INGEST_QUEUE_URI'): StartFailure =>
  new StartFailure(EXIT.queue, `${key}=${maskedUri(uri)}: ${why}`);

/** A failed start without a connection to the queue (exit 4). */
export const queueAway = (uri: string, reason: string, key?: Key): StartFailure => {
  const remedy = isPasswordRefused(reason) ? 'check user and password' : 'check that the server runs and is reachable';
  return queueFailure(uri, `${queueIsAway(reason)}; ${remedy}`, key);
};

/** A dispatcher as a sentence begins with it; what it holds is not its own. */
export const dispatcherName = (uri: string): string => `dispatcher ${maskedUri(uri)}`;

/**
 * A failed start because the queue is there, and this program must not work with it as it is: exit 4, or 2 where its
 * own setting is wrong.
 */
export const queueRefused = (uri: string, refusal: QueueRefusal, key: Key = 'INGEST_QUEUE_URI'): StartFailure =>
  refusal instanceof PartitionsDiffer
    ? new StartFailure(EXIT.configuration, `${key}=${maskedUri(uri)}: ${refusal.message}`)
    : queueFailure(uri, refusal.message, key);

/** A queue to be looked at, by whom, and the key that names it; INGEST_QUEUE_URI by default. */
export interface InspectedQueue {
  readonly uri: string;
  /** Of a queue on a Redis Cluster. */
  readonly partitions: number;
  readonly program: 'gateway' | 'consumer';
  /** Whether it has to take events now; a gateway asks its own queue for that. */
  readonly takesEvents?: boolean;
  readonly key?: Key;
}

/**
 * Connects, and gives a sentence about the servers and their streams. Nothing is made there. Rejects with a
 * StartFailure (exit 4, or 2) where the program could not work with one.
 */
export async function inspectQueue(queue: InspectedQueue): Promise<string> {
  const parts = queuePartitions(queue.uri, queue.partitions, { ...SYSTEM, makes: false });
  const found = await Promise.all(parts.map((part) => inspectPartition(queue, part)));
  const events = found.reduce((sum, one) => sum + one.events, 0);
  const streams = parts.length === 1 ? 'the stream' : `${parts.length} streams`;
  return `queue ${maskedUri(queue.uri)}: ${found[0]?.server}, ${events} events in ${streams}`;
}

async function inspectPartition(
  { uri, program, takesEvents = false, key }: InspectedQueue,
  part: QueuePartition,
): Promise<{ readonly server: string; readonly events: number }> {
  const connection = byteConnection({ ...SYSTEM, uri: part.uri, name: 'ingest-check', log: quietLog });
  let refusal: QueueRefusal | undefined;
  connection.tell({
    inspect: async (server) => {
      await assertRights(server, part.stream, program);
      await part.identify(server);
    },
    onRefused: (cause) => (refusal ??= cause),
  });
  try {
    connection.open();
    const deadline = SYSTEM.clock.ms() + CONNECT_MS;
    while (!connection.ready) {
      if (refusal !== undefined) throw queueRefused(uri, refusal, key);
      if (SYSTEM.clock.ms() > deadline) throw queueAway(uri, connection.lastError, key);
      await SYSTEM.clock.sleep(25);
    }
    if (takesEvents)
      await ACCEPT.run(connection, [...ACCEPT.command(part.stream), String(RETENTION_MS)]).catch((cause: unknown) => {
        throw queueFailure(uri, `the queue takes no events (${messageOf(cause)})`, key);
      });
    const server = serverName(await serverInfo(connection.values, 'server'));
    return { server, events: await streamLength(connection.values, part.stream) };
  } catch (cause) {
    if (cause instanceof StartFailure) throw cause;
    throw queueFailure(uri, messageOf(cause), key);
  } finally {
    await connection.close();
  }
}

/** A gateway need not have the right to XLEN. What is not there has no events. */
async function streamLength(server: Server, stream: string): Promise<number> {
  try {
    const about = (await server.send(['XINFO', 'STREAM', stream])) as readonly RedisValue[];
    return Number(about[about.indexOf('length') + 1]);
  } catch (cause) {
    if (cause instanceof RedisError && /no such key/i.test(cause.message)) return 0;
    throw cause;
  }
}

/** Connects, and gives a sentence about the warehouse. Rejects with a StartFailure (exit 5, or 2 for TablesDiffer). */
export async function inspectWarehouse(
  uri: string,
  role: 'consumer' | 'gateway',
  partitions: Partitions = 'none',
): Promise<string> {
  const name = `warehouse ${maskedUri(uri)}`;
  const fileFault = uri.startsWith('sqlite:') ? sqliteFault(uri.slice('sqlite:'.length)) : undefined;
  if (fileFault !== undefined && (fileFault !== NO_FILE || role === 'gateway')) throw warehouseFailure(uri, fileFault);
  if (fileFault === NO_FILE) return `${name}: ${NO_FILE}; the consumer makes it at its start`;
  const warehouse = openWarehouse(uri, role);
  try {
    if (role === 'consumer' && !(await inspectSchema(uri, partitions)))
      return `${name}: no tables yet; the consumer makes them at its start`;
    await warehouse.probe();
    return `${name}: answers`;
  } catch (cause) {
    const why = cause instanceof Error && cause.message !== '' ? cause.message : 'unknown error';
    throw cause instanceof TablesDiffer ? new StartFailure(EXIT.configuration, why) : warehouseFailure(uri, why);
  } finally {
    await warehouse.close();
  }
}

/** A WarehouseMisconfigured names the masked URI itself. */
const warehouseFailure = (uri: string, why: string): StartFailure => {
  const name = `${maskedUri(uri)}: `;
  return new StartFailure(
    EXIT.warehouse,
    `INGEST_WAREHOUSE_URI=${name}${why.startsWith(name) ? why.slice(name.length) : why}`,
  );
};

const NO_FILE = 'no file yet';

/** What is wrong with a SQLite file before it is opened; NO_FILE where one can be made. Nothing is made. */
function sqliteFault(path: string): string | undefined {
  const folder = dirname(resolve(path));
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found !== undefined) return found.isDirectory() ? 'expected a file: this is a directory' : undefined;
    opendirSync(folder).closeSync();
    accessSync(folder, constants.W_OK | constants.X_OK);
    return NO_FILE;
  } catch (cause) {
    return `no file can be made in ${folder} (${errno(cause)})`;
  }
}
