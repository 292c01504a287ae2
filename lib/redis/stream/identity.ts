// The queue's identity: a small hash `{<stream>}:queue`, made at first use. One of its fields changes: the longest body
// that gateways accept, which only grows.
//
// It holds the version of the stored format (stream, id index, what accept.lua says of them), the number of partitions,
// a random id, which tells apart two queues whose streams and entries have the same names, and the secret of the id
// index. A queue of several partitions has one too, for all of them: `{ingest}:queue`. Each new connection reads it
// before anything else is sent, so the events' way never pays for it.
import type { Clock, Random, Timer } from '../../process/clock.ts';
import { SettingRefused, QueueRefusal, RedisError } from '../wire/errors.ts';
import { serverHello } from '../server/facts.ts';
import { IdIndex } from './id-index.ts';
import { keyOf } from './layout.ts';
import { Script, type Server } from '../wire/script.ts';

/** The version of the stored format that this program reads and writes. */
const FORMAT_VERSION = '4';

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

/** How a queue is identified on a server that holds its stream; `known`: as it was before. */
export type Identify = (server: Server, known?: QueueIdentity) => Promise<QueueIdentity>;

export interface IdentityOptions {
  readonly random: Random;
  /** 1 by default. */
  readonly partitions?: number;
  /** Whether the server is behind a URI that names one server for all keys, as by default. */
  readonly plain?: boolean;
  /** The longest body that the caller accepts, in bytes; 0, the default: it accepts none. */
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
  // A node that happens to serve the stream's slot would work until the slot moves.
  if (plain && (await serverHello(server)).get('mode') === 'cluster') throw new QueueRefusal(CLUSTER);
  // A plain read first: it works where a write is refused.
  const stored = await server
    .send(['HMGET', keyOf(stream, 'queue'), 'format', 'partitions', 'id', 'bodyBytesMax', 'secret'])
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
      `the queue ${stream} has format ${version}, and this program needs format ${FORMAT_VERSION}: let programs of ` +
        `the version that made it land its events, then delete the keys ${stream} and {${stream}}:* and start again`,
    );
  }
  if (count !== String(partitions)) {
    throw new SettingRefused(
      `the queue ${stream} has ${counted(Number(count))}, and this program is set to ${counted(partitions)}: ` +
        'the number is fixed for the life of a queue',
    );
  }
  return { id: id ?? '', secret, partitions, bodyBytesMax: bodyBytesMax === null ? undefined : Number(bodyBytesMax) };
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
  const args = [FORMAT_VERSION, String(partitions), random.uuid(), String(accepts), secret];
  return (await script.run(server, [...script.command(stream), ...args])) as StoredIdentity;
}

const ASK_INTERVAL_MS = 10_000;

/**
 * A queue's identity as one side of it knows it: asked of each connection, and every ASK_INTERVAL_MS, because a gateway
 * that accepts longer bodies may have started since, or the metadata may have been deleted by hand.
 */
export class KnownIdentity {
  readonly #stream: string;
  readonly #identify: Identify;
  readonly #clock: Clock;
  #known: QueueIdentity | undefined;
  #index = new IdIndex('');
  #asking: Timer | undefined;

  constructor(stream: string, clock: Clock, identify: Identify) {
    this.#stream = stream;
    this.#clock = clock;
    this.#identify = identify;
  }

  /** See Delivery.source; of a queue that was not asked yet it names the stream alone. */
  get source(): string {
    return `${this.#known?.id ?? ''}/${this.#stream}`;
  }

  /** See QueueReader. */
  get bodyBytesMax(): number | undefined {
    return this.#known?.bodyBytesMax;
  }

  get index(): IdIndex {
    return this.#index;
  }

  /** Rejects as `queueIdentity` does. */
  async ask(server: Server): Promise<void> {
    const secret = this.#known?.secret;
    this.#known = await this.#identify(server, this.#known);
    if (this.#known.secret !== secret) this.#index = new IdIndex(this.#known.secret);
  }

  /** Asks again now and then. One that is not there is asked the next time. */
  keepAsking(server: Server): void {
    this.#asking ??= this.#clock.every(ASK_INTERVAL_MS, () => void this.ask(server).catch(() => undefined));
  }

  stop(): void {
    this.#asking?.close();
  }
}
