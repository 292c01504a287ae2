// The faults of a campaign, by name. Killed programs are restarted (restarted-program.ts). Servers that exit because
// their disk failed are restarted once the disk works.
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Link } from '../support/link.ts';
import { eventually } from '../support/scope.ts';
import type { QueueServer } from './queue-server.ts';
import type { Random } from './random.ts';
import type { WarehouseServer } from './warehouse.ts';
import type { World } from './world.ts';

type Part = 'producer' | 'gateway' | 'consumer' | 'queue' | 'warehouse';

/** Ends the fault. Resolves when the system works again. */
export type Mend = () => unknown;

type Begin = (world: World, random: Random) => Promise<Mend | void> | Mend | void;

export interface Fault {
  readonly weight: number;
  /** Two faults run together only if they touch different parts. */
  readonly touches: Part;
  readonly holdMs: readonly [from: number, to: number];
  /** Without `Mend`, the system recovers on its own. */
  readonly begin: Begin;
  /** True if the fault continues during later rounds until its time is over. */
  readonly lingers?: boolean;
  readonly needsServer?: boolean;
  /** Returns the number of calls that failed because of the fault, if such calls are counted. */
  readonly met?: (world: World) => number;
}

type More = Pick<Fault, 'lingers' | 'needsServer' | 'met'>;

const fault = (touches: Part, weight: number, holdMs: Fault['holdMs'], begin: Begin, more: More = {}): Fault => ({
  ...{ touches, weight, holdMs, begin },
  ...more,
});

function serverFault(
  weight: number,
  holdMs: Fault['holdMs'],
  begin: (server: WarehouseServer, random: Random) => Promise<Mend> | Mend,
): Fault {
  const ofWorld: Begin = ({ warehouse: { server } }, random) => server && begin(server, random);
  return fault('warehouse', weight, holdMs, ofWorld, { needsServer: true });
}

/** Holds back the bytes sent in one direction. They arrive after the fault, or never if `isLost` is true. */
export function held(link: Link, direction: Parameters<Link['hold']>[0], isLost: boolean): Mend {
  link.hold(direction);
  return () => {
    if (isLost) link.cut();
    link.mend();
  };
}

function cut(link: Link): Mend {
  link.cut();
  return () => link.mend();
}

const SLOW_BYTES_A_SECOND = 5_000_000;

function slow(link: Link): Mend {
  link.slow(SLOW_BYTES_A_SECOND);
  return () => link.slow(undefined);
}

/** Waits until Redis runs. A server whose disk failed may be about to exit, so Redis may have to be restarted. */
const runs = (queue: QueueServer): Promise<boolean> =>
  eventually('Redis runs', async () => {
    if (!queue.redis.running) await queue.redis.start();
    return (await queue.redis.command('PING')) === 'PONG';
  });

const HOUR_S = 3_600;

async function clockOff({ queue }: World, hours: number): Promise<Mend> {
  await queue.setClock(hours * HOUR_S);
  return () => queue.setClock(0);
}

const OLD_ENTRIES_MIN = 1_000;

/** Redis is full of old entries that have landed. Trimming them must make room for new events. */
async function fullOfOld({ queue, accepts }: World): Promise<Mend | void> {
  const { redis, startS } = queue;
  // Entries are old only if the stretch started in the past and its clock has not been set ahead yet.
  if (startS >= 0 || queue.clockMoves > 0 || (await redis.length()) < OLD_ENTRIES_MIN) return;
  await queue.setClock(-startS);
  const [, used] = /used_memory:(\d+)/.exec(String(await redis.command('INFO', 'memory'))) ?? [];
  await redis.command('CONFIG', 'SET', 'maxmemory', String(used));
  return async () => {
    await accepts(OLD_ENTRIES_MIN / 10);
    await redis.command('CONFIG', 'SET', 'maxmemory', '0');
    await queue.setClock(0);
  };
}

/** Redis is read-only because it is the replica of a server that closes every connection. */
async function readOnly({ queue }: World): Promise<Mend> {
  const nobody = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
  await once(nobody, 'listening');
  await queue.redis.command('REPLICAOF', '127.0.0.1', String((nobody.address() as AddressInfo).port));
  return async () => {
    await queue.redis.command('REPLICAOF', 'NO', 'ONE');
    nobody.close();
    await eventually('Redis is a master', async () => (await queue.replication()).includes('role:master'));
  };
}

/**
 * A planned fail-over: a replica takes over behind the same address. For a while, the old server continues as the new
 * master's replica, with its open connections.
 */
async function failOver({ queue }: World): Promise<Mend> {
  const old = queue.redis;
  const replica = await queue.replica();
  // FAILOVER pauses writes until the replica has all of them, and then swaps the roles.
  const begin = () => old.command('FAILOVER', 'TO', '127.0.0.1', String(replica.port), 'TIMEOUT', '5000');
  await begin();
  await eventually('the replica is the master', async () => {
    const [before, after] = await Promise.all([queue.replication(old), queue.replication(replica)]);
    if (after.includes('role:master') && before.includes('role:slave')) return true;
    if (before.includes('master_failover_state:no-failover') && before.includes('role:master')) await begin();
    return false;
  });
  queue.redis = replica;
  queue.link.retarget({ host: '127.0.0.1', port: replica.port });
  return async () => {
    await eventually('events are accepted by the new master', async () => {
      const before = await replica.length();
      await delay(100);
      return (await replica.length()) > before;
    });
    await old.signal('SIGKILL');
  };
}

/** Open connections to the queue and the warehouse are cut, so every program must resolve the names again. */
function namesUnknown({ names, queue, warehouse }: World): Mend {
  names.begin();
  for (const link of [queue.link, warehouse.server?.link]) if (link !== undefined) void cut(link)();
  return () => names.end();
}

function fullWarehouseDisk({ warehouse: { server }, volume, consumers }: World): Mend {
  const writers = server?.processes() ?? consumers.flatMap(({ pid }) => pid ?? []);
  volume.fill(writers);
  return async () => {
    volume.empty(server?.processes() ?? writers);
    await server?.start();
  };
}

export const FAULTS = {
  'clock of Redis 25 h ahead, and back': fault('queue', 1, [100, 3_000], (world) => clockOff(world, 25)),
  'clock of Redis 2 h back, and right again': fault('queue', 1, [100, 2_000], (world) => clockOff(world, -2)),
  "the warehouse's disk full": fault('warehouse', 3, [200, 2_000], fullWarehouseDisk),
  // If fsync fails, PostgreSQL restarts all of its processes, and SQLite fails the transaction.
  "fsync of the warehouse's disk fails": fault(
    'warehouse',
    2,
    [200, 1_500],
    ({ warehouse: { fsync, server } }) => {
      fsync.begin();
      return async () => {
        fsync.end();
        await server?.start();
      };
    },
    { met: ({ warehouse }) => warehouse.fsync.met },
  ),
  "Redis' disk full": fault('queue', 2, [100, 800], ({ queue }) => {
    queue.volume.fill([queue.redis.pid]);
    return () => {
      queue.volume.empty(queue.redis.running ? [queue.redis.pid] : []);
      return runs(queue);
    };
  }),
  // With `appendfsync always`, Redis exits if fsync fails.
  "fsync of Redis' disk fails": fault(
    'queue',
    2,
    [100, 800],
    ({ queue }) => {
      queue.fsync.begin();
      return () => {
        queue.fsync.end();
        return runs(queue);
      };
    },
    { met: ({ queue }) => queue.fsync.met },
  ),
  'fail-over': fault('queue', 3, [100, 1_000], failOver),
  'link to Redis cut one way: no commands': fault('queue', 2, [200, 3_000], ({ queue: { link } }, random) =>
    held(link, 'to the server', random.chance(0.5)),
  ),
  'link to Redis cut one way: no answers': fault('queue', 2, [200, 3_000], ({ queue: { link } }, random) =>
    held(link, 'from the server', random.chance(0.5)),
  ),
  'link to the warehouse cut one way: no answers': serverFault(2, [200, 3_000], ({ link }, random) =>
    held(link, 'from the server', random.chance(0.5)),
  ),
  'link to Redis cut': fault('queue', 6, [0, 500], ({ queue: { link } }) => cut(link)),
  'names do not resolve': fault('queue', 3, [200, 3_000], namesUnknown, { met: ({ names }) => names.met }),
  'link to Redis slow': fault('queue', 3, [200, 2_000], ({ queue: { link } }) => slow(link)),
  'link to the warehouse cut': serverFault(5, [0, 500], ({ link }) => cut(link)),
  'link to the warehouse slow': serverFault(3, [200, 2_000], ({ link }) => slow(link)),
  'producer with a journal killed': fault('producer', 4, [0, 300], ({ journaled }) => journaled.service.kill()),
  'gateway killed': fault('gateway', 6, [0, 300], ({ gateways }, random) => random.pick(gateways).kill()),
  'gateway frozen': fault('gateway', 3, [50, 1_000], ({ gateways }, random) => random.pick(gateways).freeze()),
  // The rotation waits for all gateways, and a gateway does not start while the queue is unavailable.
  'certificates, revocation lists and the producers file replaced': fault(
    'queue',
    3,
    [0, 300],
    ({ credentials, ports }, random) => credentials.rotate(ports, random),
  ),
  'consumer killed': fault('consumer', 8, [0, 300], ({ consumers }, random) => random.pick(consumers).kill()),
  'all consumers killed': fault('consumer', 2, [0, 300], ({ consumers }) =>
    consumers.forEach((consumer) => consumer.kill()),
  ),
  'consumer frozen': fault('consumer', 4, [50, 1_000], ({ consumers }, random) => random.pick(consumers).freeze()),
  // The consumer is frozen for longer than the claim timeout, so it writes after others have claimed its entries.
  'consumer frozen until it is claimed': fault(
    'consumer',
    1,
    [11_000, 14_000],
    ({ consumers }, random) => random.pick(consumers).freeze(),
    { lingers: true },
  ),
  'all consumers frozen': fault('consumer', 2, [50, 1_000], ({ consumers }) => {
    const thaws = consumers.map((consumer) => consumer.freeze());
    return () => thaws.forEach((thaw) => thaw());
  }),
  'Redis killed': fault('queue', 4, [0, 400], async ({ queue }) => {
    await queue.redis.signal('SIGKILL');
    return () => queue.redis.start();
  }),
  'Redis frozen': fault('queue', 4, [50, 1_200], async ({ queue }) => {
    await queue.redis.signal('SIGSTOP');
    return () => queue.redis.signal('SIGCONT');
  }),
  // Redis never reads the commands that were sent while it was frozen.
  'Redis frozen, then killed': fault('queue', 2, [30, 300], async ({ queue }) => {
    await queue.redis.signal('SIGSTOP');
    return async () => {
      await queue.redis.signal('SIGKILL');
      await queue.redis.start();
    };
  }),
  'Redis full': fault('queue', 4, [50, 800], async ({ queue }) => {
    await queue.redis.command('CONFIG', 'SET', 'maxmemory', '1');
    return () => queue.redis.command('CONFIG', 'SET', 'maxmemory', '0');
  }),
  'a day goes by, and Redis is full of what has landed': fault('queue', 1, [0, 200], fullOfOld),
  'Redis read-only': fault('queue', 4, [50, 800], readOnly),
  'scripts flushed': fault(
    'queue',
    3,
    [0, 50],
    async ({ queue }) => void (await queue.redis.command('SCRIPT', 'FLUSH')),
  ),
  'PostgreSQL killed': serverFault(4, [0, 400], async (server) => {
    await server.kill();
    return () => server.start();
  }),
  'PostgreSQL frozen': serverFault(3, [50, 1_500], (server) => {
    const frozen = server.processes();
    const signal = (name: NodeJS.Signals): void => {
      for (const pid of frozen) {
        try {
          process.kill(pid, name);
        } catch {
          // The process has exited.
        }
      }
    };
    signal('SIGSTOP');
    return () => signal('SIGCONT');
  }),
  'warehouse locked': fault('warehouse', 4, [100, 1_500], ({ fresh }) => fresh.lock()),
  'warehouse locked for long': fault('warehouse', 1, [5_000, 8_000], ({ fresh }) => fresh.lock()),
} satisfies Readonly<Record<string, Fault>>;

export type FaultName = keyof typeof FAULTS;

export type NamedFault = Fault & { readonly name: FaultName };

export const faultNamed = (name: FaultName, change: Partial<Fault> = {}): NamedFault => ({
  ...{ name, ...FAULTS[name] },
  ...change,
});
