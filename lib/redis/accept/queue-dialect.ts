// How the accepting side asks the Redis server behind its connection: by scripts.
import type { Outcome } from '../../ingest/queue.ts';
import type { RedisConnection, Server } from '../server/client.ts';
import { durabilityFaults, replicationFaults, rewriteFaults, serverHistory } from '../server/facts.ts';
import { QueueRefusal } from '../wire/errors.ts';
import { ensureGroup } from '../stream/group.ts';
import { fieldsOf, indexField } from '../stream/id-index.ts';
import type { Identify, QueueIdentity } from '../stream/identity.ts';
import type { Reply } from '../wire/reply.ts';
import { assertRights } from '../stream/rights.ts';
import { Script, type Argument, type Sender } from '../wire/script.ts';
import type { Log } from '../../process/log.ts';

/**
 * What an answer that is a string says of each event, by one character (accept.lua has `accepted` alone); any other
 * character is `unavailable`.
 */
export const OUTCOMES: Readonly<Record<number, Outcome>> = {
  0x30: 'accepted',
  0x31: 'duplicate',
  0x32: 'conflict',
  0x33: 'differing',
};

export interface QueueDialect {
  /**
   * The id of each event, then producer and body of each, and where it is begun `withNotes` its notes, as accept.lua
   * describes; without events it is a probe.
   */
  readonly accept: {
    /** The caller appends the events. */
    begin(withNotes: boolean): Argument[];
    run(command: readonly Argument[]): Promise<Reply>;
  };
  /** See find.lua. */
  find(id: string, producer: string): Promise<Reply>;
  /**
   * An id as the accepting call takes it: its n-th field (id-index.ts), or as it is. Of a stream, known once a
   * connection has been inspected.
   */
  readonly field: (id: string, n: number) => string;
  /** See QueueIdentity. */
  readonly bodyBytesMax: () => number | undefined;
  /**
   * Asks a new connection's server whether this program may work with it. Rejects with a QueueRefusal where waiting
   * does not help.
   */
  readonly inspect: (server: Server) => Promise<void>;
  /** Learns the queue's identity again, which may have been deleted by hand; `inspect` does so too. */
  readonly identify: (server: Server) => Promise<void>;
}

interface StreamDialectOptions {
  readonly stream: string;
  readonly retentionMs: number;
  readonly durability: 'warn' | 'require';
  readonly log: Log;
  readonly identify: Identify;
  /** Whether the consumer group is made where there is none. */
  readonly makes: boolean;
  /** How many replicas accepting calls wait for. */
  readonly replicas: number;
}

/**
 * For a stream on a Redis server. `accepting` takes the accepting calls: the connection itself, or what waits for
 * replicas.
 */
export function streamDialect(
  connection: RedisConnection<Reply>,
  accepting: Sender<Reply>,
  options: StreamDialectOptions,
): QueueDialect {
  const { stream, retentionMs, durability, log, identify, makes, replicas } = options;
  let identity: QueueIdentity | undefined;
  let field = indexField('');
  /** Of the server that was found without a rewrite: a later one replaces a file that is whole. */
  let settled: string | undefined;
  const [plain, noted] = [String(retentionMs), `${retentionMs} notes`];
  const accept = new Script('accept.lua', 'entry-name.lua', 'retained.lua');
  const find = new Script('find.lua', 'entry-name.lua', 'retained.lua');
  const identified = async (server: Server): Promise<void> => {
    const before = identity?.secret;
    identity = await identify(server, identity);
    if (identity.secret !== before) field = indexField(identity.secret);
  };
  return {
    accept: {
      begin: (withNotes) => [...accept.command(stream), withNotes ? noted : plain],
      run: (command) => accept.run(accepting, command),
    },
    find: (id, producer) => {
      return find.run(connection, [...find.command(stream), plain, producer, ...fieldsOf(field, id)]);
    },
    field: (id, n) => field(id, n),
    bodyBytesMax: () => identity?.bodyBytesMax,
    identify: identified,
    inspect: async (server) => {
      await assertRights(server, stream, 'gateway', replicas > 0 ? [['wait', '', '1 1']] : []);
      await identified(server);
      if (makes) await ensureGroup(server, stream);
      const history = await serverHistory(server);
      const rewrite = history !== undefined && history === settled ? [] : await rewriteFaults(server);
      if (rewrite.length === 0) settled = history;
      const faults = [...(await durabilityFaults(server)), ...rewrite, ...(await replicationFaults(server, replicas))];
      if (faults.length > 0 && durability === 'require')
        throw new QueueRefusal(`INGEST_QUEUE_DURABILITY=require: ${faults.join('; ')}`);
      for (const fault of faults) log.warn({ fault }, 'the queue may lose accepted events');
    },
  };
}
