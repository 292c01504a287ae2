// Who a queue is: a small hash `{<stream>}:queue` beside the id index, made at first use. Of its fields one changes:
// the longest body that gateways accept, which only grows.
//
// It holds the version of the stored format (stream, id index, what accept.lua says of them), the number of partitions,
// a random id, which tells apart two queues whose streams and entries have the same names, and the secret of the id
// index. A queue of several partitions has one too, for all of them: `{ingest}:queue`. Each new connection reads it
// before anything else is sent, so the events' way never pays for it.
import type { Random } from '../../process/clock.ts';
import { PartitionsDiffer, QueueRefusal, RedisError } from '../wire/errors.ts';
import type { Server } from '../server/client.ts';
import type { RedisValue } from '../wire/reply.ts';
import { Script } from '../wire/script.ts';

/** The version of the stored format that this program reads and writes. */
const FORMAT_VERSION = '3';

export interface QueueIdentity {
  /** Random, for the life of the queue. */
  readonly id: string;
  /** The key of the id index (id-index.ts): 32 hexadecimal digits; empty where there is no queue. */
  readonly secret: string;
  readonly partitions: number;
  /** The longest body that gateways were set to accept so far, in bytes; undefined where none has said it. */
  readonly bodyBytesMax: number | undefined;
}

/** What a node of a Redis Cluster answers for a key that it does not serve. */
const ELSEWHERE: ReadonlySet<string> = new Set(['MOVED', 'ASK', 'CLUSTERDOWN']);

const CLUSTER = 'this is a Redis Cluster: use redis+cluster://';

/** The refusal of a cluster's node behind a plain URI, where `cause` is one's answer; else `cause`. */
export function clusterRefusal(cause: unknown): unknown {
  if (!(cause instanceof RedisError) || !ELSEWHERE.has(cause.code)) return cause;
  return new QueueRefusal(`${CLUSTER} (${cause.message})`);
}

const script = new Script('identity.lua');

type StoredIdentity = readonly [
  format: string | null,
  partitions: string | null,
  id: string | null,
  bodyBytesMax: string | null,
  secret: string | null,
];

/**
 * The key that holds the identity of the queue on this stream; of a queue of several partitions, that of their common
 * name.
 */
const identityKey = (stream: string): string => `{${stream}}:queue`;

/** How a queue is identified on a server that holds its stream; `known`: as it was before. */
export type Identify = (server: Server, known?: QueueIdentity) => Promise<QueueIdentity>;

export interface IdentityOptions {
  readonly random: Random;
  /** 1 by default. */
  readonly partitions?: number;
  /** Whether the server is behind a URI that names one server for all keys, as by default. */
  readonly plain?: boolean;
  /** The longest body that whoever asks accepts, in bytes; 0, the default: it accepts none. */
  readonly accepts?: number;
  /** Whether one is made where there is none, and told of longer bodies, as by default; false: nothing is written. */
  readonly makes?: boolean;
  /** As it was known before: where the metadata was deleted since, the secret is not to change. */
  readonly known?: QueueIdentity | undefined;
}

/**
 * The identity of the queue on this stream, made where there is none, or without an id where it is not to be made.
 * Rejects with a QueueRefusal when the queue has another format version or number of partitions than this program, else
 * with what the server answered.
 */
export async function queueIdentity(
  server: Server,
  stream: string,
  { random, partitions = 1, plain = true, accepts = 0, makes = true, known }: IdentityOptions,
): Promise<QueueIdentity> {
  if (plain) await assertNoCluster(server);
  // A plain read first: it works where a write is refused.
  const stored = await server
    .send(['HMGET', identityKey(stream), 'format', 'partitions', 'id', 'bodyBytesMax', 'secret'])
    .catch((cause: unknown) => {
      throw plain ? clusterRefusal(cause) : cause;
    });
  const told = (): Promise<StoredIdentity> => tell(server, stream, random, partitions, accepts, known?.secret);
  const found = stored as StoredIdentity;
  if (!makes && found.every((field) => field === null))
    return { id: '', secret: '', partitions, bodyBytesMax: undefined };
  const [version, count, id, bodyBytesMax, secret] = makes ? await whole(found, accepts, told) : found;
  if (version !== FORMAT_VERSION || secret === null) {
    throw new QueueRefusal(
      `the queue ${stream} has format version ${version}, and this program reads and writes version ` +
        `${FORMAT_VERSION}: run a program on it that knows its version`,
    );
  }
  if (count !== String(partitions)) {
    throw new PartitionsDiffer(
      `the queue ${stream} has ${counted(Number(count))}, and this program is set to ${counted(partitions)}: ` +
        'the number is fixed for the life of a queue',
    );
  }
  return { id: id ?? '', secret, partitions, bodyBytesMax: bodyBytesMax === null ? undefined : Number(bodyBytesMax) };
}

/**
 * A node that happens to serve the stream's slot would work until the slot moves. A server without HELLO is not in a
 * cluster.
 */
async function assertNoCluster(server: Server): Promise<void> {
  const hello = await server.send(['HELLO']).catch((cause: unknown) => {
    if (cause instanceof RedisError) return [];
    throw cause;
  });
  const members = Array.isArray(hello) ? (hello as readonly RedisValue[]) : [];
  if (members[members.indexOf('mode') + 1] === 'cluster') throw new QueueRefusal(CLUSTER);
}

const counted = (partitions: number): string => `${partitions} ${partitions === 1 ? 'partition' : 'partitions'}`;

/** An identity that is there serves also where a server that refuses writes cannot be told of longer bodies. */
async function whole(
  stored: StoredIdentity,
  accepts: number,
  told: () => Promise<StoredIdentity>,
): Promise<StoredIdentity> {
  const [, , id, bodyBytesMax] = stored;
  if (id === null) return told();
  return Number(bodyBytesMax) >= accepts ? stored : told().catch(() => stored);
}

async function tell(
  server: Server,
  stream: string,
  random: Random,
  partitions: number,
  accepts: number,
  secret = random.bytes(16).toString('hex'),
): Promise<StoredIdentity> {
  const command = script.command(stream);
  command.push(FORMAT_VERSION, String(partitions), random.uuid(), String(accepts), secret);
  return (await script.run(server, command)) as StoredIdentity;
}
