// The gateway and the consumer, assembled as their programs assemble them, on simulated clocks, connections and
// stores. TLS, HTTP parsing, identities and quotas are left out: a request is an object with a complete body.
import type { Session } from '../../lib/admin/session.ts';
import { Admission } from '../../lib/gateway/admission.ts';
import { acceptEvent } from '../../lib/gateway/accept-event.ts';
import type { GatewayAnswer } from '../../lib/gateway/answers.ts';
import { Exchange, type ExchangeContext } from '../../lib/gateway/exchange.ts';
import { DECODING_TURNS } from '../../lib/gateway/content-coding.ts';
import { findEvent, LOOK_UP_TURNS } from '../../lib/gateway/find-event.ts';
import { ProducerTurns } from '../../lib/gateway/producer-slots.ts';
import { Producers } from '../../lib/gateway/producers-file.ts';
import { Quotas } from '../../lib/gateway/quotas.ts';
import { refusals } from '../../lib/gateway/producer-checks.ts';
import { gatewayMetrics } from '../../lib/gateway/metrics.ts';
import { RefusalLog } from '../../lib/gateway/refusal-log.ts';
import { RefusalMeter, RouteMeter } from '../../lib/gateway/request-meter.ts';
import { Consumer } from '../../lib/consumer/consumer.ts';
import { LandingSlots } from '../../lib/consumer/landing.ts';
import { consumerMetrics } from '../../lib/consumer/metrics.ts';
import type { Authority } from '../../lib/identity/authority.ts';
import { createLog, type Log } from '../../lib/process/log.ts';
import type { ClockAndRandom } from '../../lib/process/clock.ts';
import { queueAdmin } from '../../lib/redis/admin/stream-admin.ts';
import { queuePartitions, type QueuePartition } from '../../lib/redis/stream/queue-partitions.ts';
import { StreamQueue } from '../../lib/redis/accept/stream-queue.ts';
import { memberName, StreamReader } from '../../lib/redis/read/stream-reader.ts';
import { RedisConnection } from '../../lib/redis/server/connection.ts';
import { WARN } from '../support/partition.ts';
import { SYSTEM } from '../support/system.ts';
import { Random } from '../campaign/random.ts';
import type { Network } from './network.ts';
import { actor, ActorClock, chance, type Actor, type Schedule } from './schedule.ts';
import type { Store } from './store.ts';

const URI = 'redis://queue:6379';
export const ENQUEUE_TIMEOUT_MS = 1_000;
export const IN_FLIGHT_MAX = 64;
const REPLICAS_MAX = 6;
const START_MS = 5_000;

const log = createLog('simulation', 'error').child({}, { level: process.env['SIM_LOG'] ?? 'silent' });
// All programs share these metrics, because the simulation does not read them.
const GATEWAY_METRICS = gatewayMetrics(SYSTEM.clock);
const REFUSALS = new RefusalMeter(GATEWAY_METRICS, new RefusalLog(log, SYSTEM.clock));
const METER = new RouteMeter(GATEWAY_METRICS, '/events', SYSTEM.clock);
const CONSUMER_METRICS = consumerMetrics(SYSTEM.clock);

const partOf = (system: ClockAndRandom): QueuePartition => queuePartitions(URI, 1, system)[0] as QueuePartition;

export interface World {
  readonly schedule: Schedule;
  readonly network: Network;
  readonly store: Store;
}

export interface Told {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

abstract class Program {
  readonly actor: Actor;
  protected readonly system;

  constructor({ schedule }: World, name: string) {
    this.actor = actor(name);
    this.system = {
      clock: new ActorClock(schedule, this.actor),
      random: chance(new Random(schedule.random.between(0, 1 << 30))),
    };
  }
}

export class Gateway extends Program {
  readonly #queue: StreamQueue;
  readonly #admission = new Admission(IN_FLIGHT_MAX, 1 << 20);
  readonly #accepting;
  readonly #finding;
  readonly #context: ExchangeContext;
  open = 0;

  constructor(world: World, name: string) {
    super(world, name);
    const { network, store } = world;
    const connection = new RedisConnection(
      { ...this.system, uri: URI, name: 'ingest-gateway', log },
      network.clients(this.actor),
    );
    this.#queue = new StreamQueue({
      ...{ clock: this.system.clock, part: partOf(this.system), connection, enqueueTimeoutMs: ENQUEUE_TIMEOUT_MS, log },
      durability: WARN,
    });
    const authority = {
      judge: (producer: { readonly name: string }) => ({
        kind: 'producer',
        producer: producer.name,
        untilMs: Infinity,
      }),
    } as unknown as Authority;
    const { clock } = this.system;
    const quotas = new Quotas(Producers.UNRESTRICTED, undefined, clock);
    const about = { clock, queue: this.#queue, checks: { authority, quotas, refusal: refusals('', false) } };
    this.#accepting = {
      ...about,
      admission: this.#admission,
      decoding: new ProducerTurns({ ...DECODING_TURNS, waitMs: 30_000 }, clock),
      metrics: GATEWAY_METRICS,
      events: { bodyBytesMax: 65_536, eventId: 'id' },
      spans: undefined,
    } as const;
    this.#finding = { ...about, warehouse: store.of(this.actor), turns: new ProducerTurns(LOOK_UP_TURNS, clock) };
    this.#context = {
      ...this.system,
      admission: this.#admission,
      refusals: REFUSALS,
      spans: undefined,
      open: 0,
      log: {
        error: ({ err }: { readonly err: unknown }) => {
          throw err;
        },
      } as unknown as Log,
      logsAnswers: false,
    };
    connection.open();
  }

  get admitted(): number {
    return this.#admission.events;
  }

  post(producer: string, text: string, told: (answer: Told) => void): void {
    const exchange = this.#exchange('POST', '/events', producer, Buffer.from(text), told);
    const answer = acceptEvent(this.#accepting, exchange);
    if (answer instanceof Promise) throw new Error('a producer that is known is judged at once');
    if (answer !== 'taken') exchange.answer(answer);
  }

  find(producer: string, id: string, told: (answer: Told) => void): void {
    const exchange = this.#exchange('GET', `/events/${id}`, producer, Buffer.alloc(0), told);
    void findEvent(this.#finding, exchange, encodeURIComponent(id)).then((answer) => exchange.answer(answer));
  }

  #exchange(method: string, target: string, producer: string, body: Buffer, told: (answer: Told) => void): Exchange {
    this.open += 1;
    const request = {
      head: { method, target, contentType: 'application/json', contentLength: body.length, requestId: 'simulated' },
      body,
      respond: (_requestId: string, { status, body }: GatewayAnswer) => {
        this.open -= 1;
        const bytes = Array.isArray(body) ? Buffer.concat(body as Buffer[]) : body;
        told({ status, body: JSON.parse(String(bytes)) as Told['body'] });
      },
    };
    const connection = { name: producer, context: { latest: undefined }, address: 'simulated', readMs: 0 };
    return new Exchange(this.#context, connection as never, request as never, METER);
  }
}

/** Runs commands of `ingest-admin`, without prompts or output. They reject if the queue or the warehouse fails. */
export class Operator extends Program {
  readonly #session: Session;

  constructor(world: World, name: string) {
    super(world, name);
    const client = world.network.clients(this.actor);
    this.#session = {
      ...this.system,
      queue: queueAdmin({ ...this.system, uri: URI, partitions: 1, log, client }),
      warehouse: world.store.adminOf(this.actor),
      json: false,
      print: () => undefined,
      printed: () => Promise.resolve(true),
      tell: () => undefined,
      readSchema: () => Promise.reject(new Error('no schemas are simulated')),
      sides: ['queue', 'warehouse'],
      confirm: () => Promise.resolve(true),
      progress: () => undefined,
      stopped: new AbortController().signal,
    };
  }

  async run(command: (session: Session) => Promise<boolean>): Promise<boolean> {
    try {
      return await command(this.#session);
    } finally {
      await Promise.all(this.#session.queue.streams.map((stream) => stream.close()));
    }
  }
}

export class Replica extends Program {
  readonly #reader: StreamReader;
  readonly #consumer: Consumer;
  #running: Promise<void> | undefined;

  constructor(world: World, name: string) {
    super(world, name);
    const { network, store } = world;
    const client = network.clients(this.actor);
    const member = memberName(this.system.random);
    this.#reader = new StreamReader({ ...this.system, name: member, part: partOf(this.system), log, client });
    const limits = { batchMax: 8, replicasMax: REPLICAS_MAX, streams: 1, slots: new LandingSlots() };
    const telemetry = { metrics: CONSUMER_METRICS, log };
    const warehouse = store.of(this.actor);
    this.#consumer = new Consumer({ ...this.system, reader: this.#reader, warehouse, telemetry, limits });
  }

  /**
   * Starts as bin/ingest-consumer.ts does. Returns false if the program would exit because the queue is unavailable.
   */
  async start(): Promise<boolean> {
    const opened = await this.#reader.open(START_MS);
    if (!opened && !this.#reader.waiting) return false;
    this.#running = this.#consumer.run();
    return true;
  }

  async stop(): Promise<void> {
    this.#consumer.stop();
    await this.#running;
    await this.#reader.close();
  }
}
