// Everything that a stretch runs on: queue, warehouse, two gateways, three consumers, the load, and a producer with a
// journal. The programs are real processes, started by their launchers.
import { join } from 'node:path';
import { TestClient } from '../support/client.ts';
import { FailingCalls } from '../support/failing-calls.ts';
import type { ClientCertificate } from '../support/pki.ts';
import { freePort } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { Credentials } from './credentials.ts';
import { JournaledLoad } from './journaled-load.ts';
import { Ledger, type History } from './ledger.ts';
import { Load, type Poster } from './load.ts';
import { QueueServer } from './queue-server.ts';
import type { Random } from './random.ts';
import { Service } from './restarted-program.ts';
import type { CampaignWarehouse } from './warehouse.ts';
import type { Volume } from './volume.ts';

const GATEWAYS = 2;
const CONSUMERS = 3;
const CONNECTIONS = { maxSockets: 24 };
/** The events of the producer with a journal are numbered from here, after those of the load. */
const JOURNALED_FROM = 4_000_000;

export interface WorldOptions {
  readonly warehouse: CampaignWarehouse;
  /** The disk of the warehouse. */
  readonly volume: Volume;
  readonly history: History;
  readonly random: Random;
  readonly product: string;
  readonly first: number;
  readonly clockS: number;
}

export type World = Awaited<ReturnType<typeof startWorld>>;

export async function startWorld(options: WorldOptions) {
  const { warehouse, history, random, product, first, clockS } = options;
  // The warehouse is created first, so that nothing else is open if that fails.
  const fresh = await warehouse.fresh();
  const credentials = await Credentials.create();
  const queue = await QueueServer.start(clockS);
  const ports = await Promise.all(Array.from({ length: GATEWAYS }, freePort));
  // SQLite runs inside the consumers, so fsync must fail in the consumers too.
  const fsync = warehouse.kind === 'sqlite' ? warehouse.fsync.environment : {};
  /** Makes name resolution fail in all programs. */
  const names = new FailingCalls('names', fsync['LD_PRELOAD']);
  const common = {
    INGEST_QUEUE_URI: queue.uri,
    INGEST_WAREHOUSE_URI: fresh.uri,
    // On a busy machine, the default timeout would turn healthy answers into 503.
    INGEST_ENQUEUE_TIMEOUT_MS: '1000',
    NODE_COMPILE_CACHE: join(product, 'node_modules/.cache/compile'),
    ...fsync,
    ...names.environment,
  };
  const service = (program: string, at: number, env: Readonly<Record<string, string>>): Service =>
    new Service(`${program} ${at + 1}`, join(product, `bin/ingest-${program}`), [], { ...common, ...env }, history);
  const gateways = ports.map((port, at) =>
    service('gateway', at, { ...credentials.environment(at), INGEST_GATEWAY_ADDR: `127.0.0.1:${port}` }),
  );
  const consumers = Array.from({ length: CONSUMERS }, (_, at) =>
    service('consumer', at, { INGEST_CONSUMER_ADDR: '127.0.0.1:0' }),
  );
  const services = [...gateways, ...consumers];
  const stopAll = async (): Promise<void> => {
    await Promise.all(services.map((each) => each.stop()));
    await queue.stop();
  };
  try {
    await eventually('every program listens', () => services.every(({ listening }) => listening), 60_000);
  } catch (cause) {
    await stopAll();
    throw new Error(services.flatMap(({ lines }) => lines.slice(-20)).join('\n'), { cause });
  }
  const [own, other] = await Promise.all([credentials.producer('own'), credentials.producer('other')]);
  const ca = credentials.authority;
  const waysOf = (certificate: ClientCertificate): Poster[] =>
    ports.map((port, at) => ({
      gateway: `gateway ${at + 1}`,
      client: new TestClient(port, ca, certificate, {}, CONNECTIONS),
    }));
  const to = { url: `https://127.0.0.1:${ports[0]}`, cert: own.cert, key: own.key, ca };
  const journaled = new JournaledLoad({ product, first: first + JOURNALED_FROM, history, to });
  services.push(journaled.service);
  const ledger = new Ledger();
  const load = new Load({
    ...{ ledger, random, posters: { own: waysOf(own), other: waysOf(other) }, first },
    clockMoves: () => queue.clockMoves,
    now: () => history.now(),
  });
  const accepts = async (events: number): Promise<void> => {
    const wanted = ledger.accepted + events;
    await eventually('events are accepted', () => ledger.accepted >= wanted, 120_000);
  };
  await accepts(1);
  return {
    ...{
      ...options,
      fresh,
      credentials,
      queue,
      ports,
      names,
      gateways,
      consumers,
      journaled,
      services,
      ledger,
      accepts,
    },
    /** Stops the load. Resolves to true if everything has landed before the deadline. */
    async settled(deadlineMs: number): Promise<boolean> {
      await load.stop();
      try {
        await journaled.drain(ledger, deadlineMs);
        await eventually(
          'the group has acknowledged all',
          async () => {
            // The server may exit some time after its disk works again.
            await warehouse.server?.start();
            return queue.landed();
          },
          deadlineMs,
        );
        return true;
      } catch {
        return false;
      }
    },
    async stop(): Promise<void> {
      await load.stop();
      await stopAll();
    },
  };
}
