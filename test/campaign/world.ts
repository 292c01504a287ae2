// Everything that a stretch runs on: queue, warehouse, two gateways, three consumers, the load, and a producer with a
// journal. The programs are real processes, started by their launchers. CAMPAIGN_DISPATCHER=1 adds a second queue
// without faults.
import { join } from 'node:path';
import { TestClient } from '../support/client.ts';
import { FailingCalls } from '../support/failing-calls.ts';
import { freePort } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { Credentials } from './credentials.ts';
import type { History } from './history.ts';
import { JournaledLoad } from './journaled-load.ts';
import { Ledger, type Producer } from './ledger.ts';
import { Load, type Poster } from './load.ts';
import { QueueServer } from './queue-server.ts';
import type { Random } from './random.ts';
import { Service } from './restarted-program.ts';
import { DISPATCHER } from './settings.ts';
import type { CampaignWarehouse, FreshWarehouse } from './warehouse.ts';
import type { Volume } from './volume.ts';

const GATEWAYS = 2;
const CONSUMERS = 3;
const CONNECTIONS = { maxSockets: 24 };
/** The events of the producer with a journal are numbered from here, after those of the load. */
const JOURNALED_FROM = 4_000_000;

export interface WorldOptions {
  readonly warehouse: CampaignWarehouse;
  readonly warehouseVolume: Volume;
  readonly history: History;
  readonly random: Random;
  readonly product: string;
  readonly first: number;
  readonly clockS: number;
}

export class World {
  readonly ledger = new Ledger();
  readonly load: Load;
  readonly journaled: JournaledLoad;
  readonly queue: QueueServer;
  readonly queues: readonly QueueServer[];
  readonly fresh: FreshWarehouse;
  readonly gateways: readonly Service[];
  readonly consumers: readonly Service[];
  readonly credentials: Credentials;
  readonly ports: readonly number[];
  /** Makes name resolution fail in all programs. */
  readonly names: FailingCalls;
  readonly options: WorldOptions;

  private constructor(
    options: WorldOptions,
    queues: readonly QueueServer[],
    fresh: FreshWarehouse,
    parts: Pick<World, 'gateways' | 'consumers' | 'credentials' | 'ports' | 'names' | 'journaled'>,
    posters: Readonly<Record<Producer, readonly Poster[]>>,
  ) {
    this.options = options;
    const [queue] = queues;
    if (queue === undefined) throw new Error('no queue');
    this.queue = queue;
    this.queues = queues;
    this.fresh = fresh;
    this.gateways = parts.gateways;
    this.consumers = parts.consumers;
    this.credentials = parts.credentials;
    this.ports = parts.ports;
    this.names = parts.names;
    this.journaled = parts.journaled;
    const { history, random, first } = options;
    const { ledger } = this;
    const clockMoves = (): number => queue.clock.moves;
    this.load = new Load({ ledger, random, posters, first, clockMoves, now: () => history.now() });
  }

  static async start(options: WorldOptions): Promise<World> {
    const { history, product, warehouse } = options;
    // The warehouse is created first, so that nothing else is open if that fails.
    const fresh = await warehouse.fresh();
    const [credentials, queues] = await Promise.all([
      Credentials.create(),
      Promise.all(Array.from({ length: DISPATCHER ? 2 : 1 }, () => QueueServer.start(options.clockS))),
    ]);
    const ports = await Promise.all(Array.from({ length: GATEWAYS }, () => freePort()));
    const common = {
      INGEST_QUEUE_URI: DISPATCHER
        ? `dispatcher://${queues.map(({ uri }) => new URL(uri).host).join(',')}`
        : (queues[0]?.uri ?? ''),
      INGEST_WAREHOUSE_URI: fresh.uri,
      // On a busy machine, the default timeout would turn healthy answers into 503.
      ...(DISPATCHER ? { INGEST_SHED_MS: '1000' } : { INGEST_ENQUEUE_TIMEOUT_MS: '1000' }),
      NODE_COMPILE_CACHE: join(product, 'node_modules/.cache/compile'),
    };
    // SQLite runs inside the consumers, so fsync must fail in the consumers too.
    const ownFsync = warehouse.kind === 'sqlite' ? warehouse.fsync.environment : {};
    const names = new FailingCalls('names', ownFsync['LD_PRELOAD']);
    const service = (program: string, at: number, env: Readonly<Record<string, string>>): Service =>
      new Service({
        name: `${program} ${at + 1}`,
        command: join(product, `bin/ingest-${program}`),
        env: { ...common, ...ownFsync, ...names.environment, ...env },
        history,
      });
    const gateways = ports.map((port, at) =>
      service('gateway', at, {
        ...credentials.environment(at),
        INGEST_GATEWAY_ADDR: `127.0.0.1:${port}`,
      }),
    );
    const consumers = Array.from({ length: CONSUMERS }, (_, at) =>
      service('consumer', at, { INGEST_CONSUMER_ADDR: '127.0.0.1:0' }),
    );
    const services = [...gateways, ...consumers];
    try {
      await eventually('every program listens', () => services.every(({ listening }) => listening), 60_000);
    } catch (cause) {
      await Promise.all(services.map((service) => service.stop()));
      await Promise.all(queues.map((queue) => queue.stop()));
      throw new Error(services.flatMap(({ lines }) => lines.slice(-20)).join('\n'), { cause });
    }
    const [own, other] = await Promise.all([credentials.producer('own'), credentials.producer('other')]);
    const waysOf = (certificate: typeof own): Poster[] =>
      ports.map((port, at) => ({
        gateway: `gateway ${at + 1}`,
        client: new TestClient(port, credentials.authority, certificate, {}, CONNECTIONS),
      }));
    const posters = { own: waysOf(own), other: waysOf(other) };
    const to = { url: `https://127.0.0.1:${ports[0]}`, cert: own.cert, key: own.key, ca: credentials.authority };
    const journaled = new JournaledLoad({ product, first: options.first + JOURNALED_FROM, history, to });
    const world = new World(
      options,
      queues,
      fresh,
      { gateways, consumers, credentials, ports, names, journaled },
      posters,
    );
    await world.accepts(1);
    return world;
  }

  get services(): readonly Service[] {
    return [...this.gateways, ...this.consumers, this.journaled.service];
  }

  async accepts(events: number, deadlineMs = 120_000): Promise<void> {
    const wanted = this.ledger.accepted + events;
    await eventually('events are accepted', () => this.ledger.accepted >= wanted, deadlineMs);
  }

  /** Restarts the warehouse's server if it has exited, which may happen some time after its disk works again. */
  async warehouseRuns(): Promise<void> {
    await this.options.warehouse.server?.start();
  }

  async settled(deadlineMs: number): Promise<boolean> {
    await this.load.stop();
    const landed = async (): Promise<boolean> => {
      await this.warehouseRuns();
      return (await Promise.all(this.queues.map((queue) => queue.landed()))).every((all) => all);
    };
    return this.journaled
      .drain(this.ledger, deadlineMs)
      .then(() => eventually('the group has acknowledged all', landed, deadlineMs))
      .then(
        () => true,
        () => false,
      );
  }

  async stop(): Promise<void> {
    await this.load.stop();
    await Promise.all(this.services.map((service) => service.stop()));
    await Promise.all(this.queues.map((queue) => queue.stop()));
  }
}
