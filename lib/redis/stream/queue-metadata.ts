// The queue's identity: a small hash `{<stream>}:queue`, created on first use. It contains the version of the stored
// format, the number of partitions, a random id, the secret of the id index, and the longest body that gateways
// accept, which only grows. The partitions on a Redis Cluster share one identity, `{ingest}:queue`. Each new
// connection reads the identity first.
import type { Clock, Random, Timer } from '../../process/clock.ts';
import { SettingRefused, QueueRefusal } from '../wire/errors.ts';
import { serverHello } from '../server/server-info.ts';
import { IdIndex } from './id-index.ts';
import { keyOf } from './layout.ts';
import { Script } from '../wire/script.ts';
import type { Server } from '../wire/values.ts';

const FORMAT_VERSION = '4';

export interface QueueIdentity {
  /** Random and permanent. It distinguishes queues whose streams have the same names. */
  readonly id: string;
  /** The key of the id index (32 hexadecimal digits), or '' if there is no queue. */
  readonly secret: string;
  readonly partitions: number;
  readonly bodyBytesMax: number | undefined;
}

const script = new Script('identity.lua');

const FIELDS = ['format', 'partitions', 'id', 'bodyBytesMax', 'secret'];

export type Identify = (server: Server, known?: QueueIdentity) => Promise<QueueIdentity>;

export interface IdentityOptions {
  readonly random: Random;
  readonly partitions?: number;
  /** True, the default, if the URI names one server for all keys. */
  readonly plain?: boolean;
  readonly accepts?: number;
  /** If true, the default, creates a missing identity and reports longer bodies. If false, writes nothing. */
  readonly makes?: boolean;
  /** The last result. Its secret is used again if the metadata was deleted. */
  readonly known?: QueueIdentity | undefined;
}

/**
 * Creates the identity if necessary. Without `makes`, a missing identity has no id. Rejects with a QueueRefusal if
 * the format version or the number of partitions differs.
 */
export async function queueIdentity(
  server: Server,
  stream: string,
  { random, partitions = 1, plain = true, accepts = 0, makes = true, known }: IdentityOptions,
): Promise<QueueIdentity> {
  // A node that happens to serve the stream's slot would work only until the slot moves.
  if (plain && (await serverHello(server)).get('mode') === 'cluster')
    throw new QueueRefusal('this is a Redis Cluster: use redis+cluster://');
  // Reads first, because a server that refuses writes allows reads.
  const reply = await server.send(['HMGET', keyOf(stream, 'queue'), ...FIELDS]);
  let stored = reply as readonly (string | null)[];
  if (!makes && stored.every((field) => field === null))
    return { id: '', secret: '', partitions, bodyBytesMax: undefined };
  const isMissing = (stored[2] ?? null) === null;
  if (makes && (isMissing || Number(stored[3]) < accepts)) {
    const secret = known?.secret ?? random.bytes(16).toString('hex');
    const args = [FORMAT_VERSION, String(partitions), random.uuid(), String(accepts), secret];
    const made = await script.run(server, stream, args).catch((cause: unknown) => {
      // If the server refuses writes, the stored identity is still usable.
      if (isMissing) throw cause;
      return reply;
    });
    stored = made as readonly (string | null)[];
  }
  const [version, count, id, bodyBytesMax = null, secret = null] = stored;
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

const ASK_INTERVAL_MS = 10_000;

/**
 * The identity is read with each connection and every ASK_INTERVAL_MS, because a gateway with longer bodies may have
 * started, or the metadata may have been deleted by hand.
 */
export class KnownIdentity {
  readonly #stream: string;
  readonly #identify: Identify;
  readonly #clock: Clock;
  known: QueueIdentity | undefined;
  index = new IdIndex('');
  #asking: Timer | undefined;

  constructor(stream: string, clock: Clock, identify: Identify) {
    this.#stream = stream;
    this.#clock = clock;
    this.#identify = identify;
  }

  /** See Delivery.source. Before the first reply, it contains only the stream. */
  get source(): string {
    return `${this.known?.id ?? ''}/${this.#stream}`;
  }

  async ask(server: Server): Promise<void> {
    const before = this.known?.secret;
    this.known = await this.#identify(server, this.known);
    if (this.known.secret !== before) this.index = new IdIndex(this.known.secret);
  }

  keepAsking(server: Server): void {
    this.#asking ??= this.#clock.every(ASK_INTERVAL_MS, () => void this.ask(server).catch(() => undefined));
  }

  stop(): void {
    this.#asking?.close();
  }
}
