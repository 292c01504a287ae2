// All that one stretch of a campaign runs on: queue, warehouse, two gateways, three consumers, and the producers' load.
//
// The programs are real processes, started by their launchers, with the configuration that an operator would give them.
import { join } from 'node:path';
import { Pki } from '../support/pki.ts';
import { freePort } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import type { History } from './history.ts';
import { Ledger, type Producer } from './ledger.ts';
import { Load } from './load.ts';
import { Poster } from './post.ts';
import { QueueServer } from './queue-server.ts';
import type { Random } from './random.ts';
import { Service } from './service.ts';
import type { CampaignWarehouse, FreshWarehouse } from './warehouse.ts';
import type { Volume } from './volume.ts';

const GATEWAYS = 2;
const CONSUMERS = 3;

export interface WorldOptions {
  readonly warehouse: CampaignWarehouse;
  readonly warehouseVolume: Volume;
  readonly history: History;
  readonly random: Random;
  /** The folder that holds `bin` and `lib`. */
  readonly product: string;
  /** The number of the first event. */
  readonly first: number;
  /** Where the queue's clock stands, in seconds from the true time. */
  readonly clockS: number;
}

export class World {
  readonly ledger = new Ledger();
  readonly load: Load;
  readonly queue: QueueServer;
  readonly fresh: FreshWarehouse;
  readonly gateways: readonly Service[];
  readonly consumers: readonly Service[];
  readonly options: WorldOptions;

  private constructor(
    options: WorldOptions,
    queue: QueueServer,
    fresh: FreshWarehouse,
    gateways: readonly Service[],
    consumers: readonly Service[],
    posters: Readonly<Record<Producer, readonly Poster[]>>,
  ) {
    this.options = options;
    this.queue = queue;
    this.fresh = fresh;
    this.gateways = gateways;
    this.consumers = consumers;
    const { history, random, first } = options;
    const { ledger } = this;
    const clockMoves = (): number => queue.clock.moves;
    this.load = new Load({ ledger, random, posters, first, clockMoves, now: () => history.now() });
  }

  /** Resolves when every program listens and the first events were accepted. */
  static async start(options: WorldOptions): Promise<World> {
    const { history, product, warehouse } = options;
    const [pki, queue, fresh] = await Promise.all([Pki.create(), QueueServer.start(options.clockS), warehouse.fresh()]);
    const ports = await Promise.all(Array.from({ length: GATEWAYS }, () => freePort()));
    const common = {
      INGEST_QUEUE_URI: queue.uri,
      INGEST_WAREHOUSE_URI: fresh.uri,
      // On a busy machine the default is a timed assertion, and turns what is not broken into 503.
      INGEST_ENQUEUE_TIMEOUT_MS: '1000',
      NODE_COMPILE_CACHE: join(product, 'node_modules/.cache/compile'),
    };
    const service = (program: string, at: number, env: Readonly<Record<string, string>>): Service =>
      new Service({
        name: `${program} ${at + 1}`,
        command: join(product, `bin/ingest-${program}`),
        env: { ...common, ...env },
        history,
      });
    const gateways = ports.map((port, at) =>
      service('gateway', at, {
        ...pki.environment,
        INGEST_GATEWAY_ADDR: `127.0.0.1:${port}`,
        INGEST_STATE_DIR: pki.folder,
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
      await queue.stop();
      throw new Error(services.flatMap(({ lines }) => lines.slice(-20)).join('\n'), { cause });
    }
    const [own, other] = await Promise.all([pki.producer('own'), pki.producer('other')]);
    const waysOf = (certificate: typeof own): Poster[] =>
      ports.map((port, at) => new Poster(`gateway ${at + 1}`, port, pki.authority.certificate, certificate));
    const posters = { own: waysOf(own), other: waysOf(other) };
    const world = new World(options, queue, fresh, gateways, consumers, posters);
    await world.accepts(1);
    return world;
  }

  get services(): readonly Service[] {
    return [...this.gateways, ...this.consumers];
  }

  /** Waits until so many more events are accepted. */
  async accepts(events: number, deadlineMs = 40_000): Promise<void> {
    const wanted = this.ledger.accepted + events;
    await eventually('events are accepted', () => this.ledger.accepted >= wanted, deadlineMs);
  }

  /** Ends the producers, and waits until every event was read and acknowledged. False: not within `deadlineMs`. */
  async settled(deadlineMs: number): Promise<boolean> {
    await this.load.stop();
    return eventually('the group has acknowledged all', () => this.queue.landed(), deadlineMs).then(
      () => true,
      () => false,
    );
  }

  async stop(): Promise<void> {
    await this.load.stop();
    await Promise.all(this.services.map((service) => service.stop()));
    await this.queue.stop();
  }
}
