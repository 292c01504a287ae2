// Checks a queue for `--check=connect`, and describes startup failures that the queue causes.
import type { ClockAndRandom } from '../../process/clock.ts';
import { createLog } from '../../process/log.ts';
import { maskedUri } from '../../process/uri.ts';
import { messageOf } from '../../process/message-of.ts';
import { EXIT, StartFailure } from '../../process/program.ts';
import { RedisConnection } from '../server/connection.ts';
import { serverInfo, serverName } from '../server/server-info.ts';
import { SettingRefused, queueIsAway, QueueRefusal } from '../wire/errors.ts';
import { fieldsOf } from '../wire/values.ts';
import { xinfo } from './group.ts';
import { queuePartitions, type QueuePartition } from './queue-partitions.ts';
import { assertRights } from './rights.ts';

const CONNECT_MS = 5_000;
/** The result reports failures, so these connections do not log them. */
const QUIET = createLog('check', 'error');

const REMEDY = 'check that the server runs, is reachable, accepts the user and password, and can be written to';

/** Throws a StartFailure with exit code 4, or 2 if the program's own setting is wrong. */
export function failStart(uri: string, cause: unknown): never {
  const code = cause instanceof SettingRefused ? EXIT.configuration : EXIT.queue;
  const why = cause instanceof QueueRefusal ? cause.message : `${messageOf(cause)}; ${REMEDY}`;
  throw new StartFailure(code, `INGEST_QUEUE_URI=${maskedUri(uri)}: ${why}`);
}

/** Connects without writing anything. Returns a sentence about the queue, or rejects with a StartFailure. */
export async function inspectQueue(
  { uri, partitions, program }: { uri: string; partitions: number; program: 'gateway' | 'consumer' },
  system: ClockAndRandom,
): Promise<string> {
  const parts = queuePartitions(uri, partitions, { ...system, makes: false });
  const inspected = Promise.all(parts.map((part) => inspectPartition(part, program, system)));
  const results = await inspected.catch((cause: unknown) => failStart(uri, cause));
  const events = results.reduce((sum, one) => sum + one.events, 0);
  const streams = parts.length === 1 ? 'the stream' : `${parts.length} streams`;
  return `queue ${maskedUri(uri)}: ${results[0]?.server}, ${events} events in ${streams}`;
}

async function inspectPartition(part: QueuePartition, program: 'gateway' | 'consumer', system: ClockAndRandom) {
  const connection = new RedisConnection({ ...system, uri: part.uri, name: 'ingest-check', log: QUIET });
  connection.tell({
    inspect: async (server) => {
      await assertRights(server, part.stream, program);
      await part.identify(server);
    },
  });
  try {
    if (!(await connection.opened(CONNECT_MS))) throw new Error(queueIsAway(connection.lastError));
    const server = serverName(await serverInfo(connection));
    // The gateway's Redis user may lack the right to call XLEN.
    const events = Number(fieldsOf(await xinfo(connection, 'STREAM', part.stream)).get('length') ?? 0);
    return { server, events };
  } finally {
    connection.close();
  }
}
