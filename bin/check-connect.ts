// What `--check=connect` finds out about the queue and the warehouse by asking them.
import { existsSync } from 'node:fs';
import { maskedUri } from '../lib/process/masked-uri.ts';
import { createLog } from '../lib/process/log.ts';
import { EXIT, StartFailure } from '../lib/process/program.ts';
import type { Key } from '../lib/process/settings.ts';
import { byteConnection } from '../lib/redis/byte-client.ts';
import { PartitionsDiffer, type QueueRefusal } from '../lib/redis/errors.ts';
import { clusterRefusal } from '../lib/redis/queue-identity.ts';
import { serverInfo, serverName } from '../lib/redis/server-info.ts';
import { queuePartitions, type QueuePartition } from '../lib/redis/open-queue.ts';
import { openWarehouse } from './warehouse-adapter.ts';

const CONNECT_MS = 5_000;

/** For connections whose troubles are told as the result: their own lines would only repeat it. */
export const quietLog = createLog('check', 'error');

/** A failed start because of the queue (exit 4), with the masked URI. */
export const queueFailure = (uri: string, why: string, key: Key = 'INGEST_QUEUE_URI'): StartFailure =>
  new StartFailure(EXIT.queue, `${key}=${maskedUri(uri)}: ${why}`);

/** A dispatcher as a sentence begins with it; what it holds is not its own. */
export const dispatcherName = (uri: string): string => `dispatcher ${maskedUri(uri)}`;

/**
 * A failed start because the queue is there, and this program must not work with it as it is: exit 4, or 2 where its
 * own setting is wrong.
 */
export const queueRefused = (uri: string, refusal: QueueRefusal): StartFailure =>
  refusal instanceof PartitionsDiffer
    ? new StartFailure(EXIT.configuration, `INGEST_QUEUE_URI=${maskedUri(uri)}: ${refusal.message}`)
    : queueFailure(uri, refusal.message);

/** Connects, and gives a sentence about the servers and their streams. Rejects with a StartFailure (exit 4, or 2). */
export async function inspectQueue(uri: string, partitions: number, key?: Key): Promise<string> {
  const parts = queuePartitions(uri, partitions);
  const found = await Promise.all(parts.map((part) => inspectPartition(uri, part, key)));
  const events = found.reduce((sum, one) => sum + one.events, 0);
  const streams = parts.length === 1 ? 'the stream' : `${parts.length} streams`;
  return `queue ${maskedUri(uri)}: ${found[0]?.server}, ${events} events in ${streams}`;
}

async function inspectPartition(
  uri: string,
  part: QueuePartition,
  key: Key | undefined,
): Promise<{ readonly server: string; readonly events: number }> {
  const connection = byteConnection({ uri: part.uri, name: 'ingest-check', log: quietLog });
  try {
    connection.open();
    const deadline = performance.now() + CONNECT_MS;
    while (!connection.ready) {
      if (performance.now() > deadline)
        throw queueFailure(
          uri,
          `the queue does not answer (${connection.lastError}); check that the server runs and is reachable`,
          key,
        );
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    const events = await connection.send(['XLEN', part.stream]);
    const server = serverName(await serverInfo(connection, 'server'));
    return { server, events: events.integer() };
  } catch (cause) {
    if (cause instanceof StartFailure) throw cause;
    const refusal = clusterRefusal(cause);
    throw queueFailure(uri, refusal instanceof Error ? refusal.message : 'unknown error', key);
  } finally {
    await connection.close();
  }
}

/** Connects, and gives a sentence about the warehouse. Rejects with a StartFailure (exit 5). */
export async function inspectWarehouse(uri: string, role: 'consumer' | 'gateway'): Promise<string> {
  const name = `warehouse ${maskedUri(uri)}`;
  if (role === 'consumer' && uri.startsWith('sqlite:') && !existsSync(uri.slice('sqlite:'.length)))
    return `${name}: no file yet; the consumer makes it at its start`;
  const warehouse = openWarehouse(uri, role);
  try {
    await warehouse.probe();
    return `${name}: answers`;
  } catch (cause) {
    const why = cause instanceof Error && cause.message !== '' ? cause.message : 'unknown error';
    throw new StartFailure(EXIT.warehouse, `INGEST_WAREHOUSE_URI=${maskedUri(uri)}: ${why}`);
  } finally {
    await warehouse.close();
  }
}
