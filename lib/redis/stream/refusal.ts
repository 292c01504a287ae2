// Why a stream accepts no events, for programs that accept none themselves.
import { RETENTION_MS } from '../../ingest/queue.ts';
import { replicationFaults } from '../server/durability.ts';
import type { ServerInfo } from '../server/facts.ts';
import { RedisError } from '../wire/errors.ts';
import type { Server } from '../wire/values.ts';
import { ACCEPT } from './entry.ts';
import { keyOf } from './layout.ts';

/** Notes how many replicas a gateway needs. A server that refuses writes keeps its last note. */
export async function noteReplicas(server: Server, stream: string, replicas: number): Promise<void> {
  await server.send(['HSET', keyOf(stream, 'looked'), 'required', String(replicas)]).catch((cause: unknown) => {
    if (!(cause instanceof RedisError)) throw cause;
  });
}

/** Returns the reason in the words of a gateway's probe, or `undefined`. */
export async function refusalOf(server: Server, stream: string, info: ServerInfo): Promise<string | undefined> {
  const replicas = Number(await server.send(['HGET', keyOf(stream, 'looked'), 'required']));
  const [fault] = replicas > 0 && info.has('connected_slaves') ? replicationFaults(info, replicas) : [];
  if (fault !== undefined) return fault;
  return ACCEPT.run(server, stream, [String(RETENTION_MS)]).then(
    () => undefined,
    (cause: unknown) => {
      if (cause instanceof RedisError && cause.code !== 'NOPERM') return cause.message;
      throw cause;
    },
  );
}
