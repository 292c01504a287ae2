import { createServer } from 'node:net';
import { eventually } from '../../support/scope.ts';
import { setClock } from './clock.ts';
import type { Fault } from './fault.ts';

const OLD_ENTRIES_MIN = 1_000;

export const killQueue: Fault = {
  name: 'Redis killed',
  weight: 4,
  touches: 'queue',
  holdMs: [0, 400],
  begin: async ({ queue }) => {
    await queue.redis.signal('SIGKILL');
    return () => queue.redis.start();
  },
};

export const freezeQueue: Fault = {
  name: 'Redis frozen',
  weight: 4,
  touches: 'queue',
  holdMs: [50, 1_200],
  begin: async ({ queue }) => {
    await queue.redis.signal('SIGSTOP');
    return () => queue.redis.signal('SIGCONT');
  },
};

/** Redis never reads the commands that were sent while it was frozen. */
export const freezeAndKillQueue: Fault = {
  name: 'Redis frozen, then killed',
  weight: 2,
  touches: 'queue',
  holdMs: [30, 300],
  begin: async ({ queue }) => {
    await queue.redis.signal('SIGSTOP');
    return async () => {
      await queue.redis.signal('SIGKILL');
      await queue.redis.start();
    };
  },
};

export const fullQueue: Fault = {
  name: 'Redis full',
  weight: 4,
  touches: 'queue',
  holdMs: [50, 800],
  begin: async ({ queue }) => {
    await queue.redis.command('CONFIG', 'SET', 'maxmemory', '1');
    return async () => void (await queue.redis.command('CONFIG', 'SET', 'maxmemory', '0'));
  },
};

/** Redis is full of old entries that have landed. Trimming them must make room for new events. */
export const fullOfOld: Fault = {
  name: 'a day goes by, and Redis is full of what has landed',
  weight: 1,
  touches: 'queue',
  holdMs: [0, 200],
  begin: async (world) => {
    const { queue } = world;
    const { redis, clock } = queue;
    // Entries are old only if the stretch started in the past and its clock has not been set ahead yet.
    const fills = clock.startS < 0 && clock.moves === 0 && (await redis.length()) >= OLD_ENTRIES_MIN;
    if (!fills) return () => undefined;
    await setClock(queue, -clock.startS);
    const [, used] = /used_memory:(\d+)/.exec(String(await redis.command('INFO', 'memory'))) ?? [];
    await redis.command('CONFIG', 'SET', 'maxmemory', String(used));
    return async () => {
      await world.accepts(OLD_ENTRIES_MIN / 10);
      await redis.command('CONFIG', 'SET', 'maxmemory', '0');
      await setClock(queue, 0);
    };
  },
};

/** Redis is read-only because it is the replica of a server that closes every connection. */
export const readOnlyQueue: Fault = {
  name: 'Redis read-only',
  weight: 4,
  touches: 'queue',
  holdMs: [50, 800],
  begin: async ({ queue }) => {
    const nobody = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => nobody.listen(0, '127.0.0.1', resolve));
    const address = nobody.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    await queue.redis.command('REPLICAOF', '127.0.0.1', String(port));
    return async () => {
      await queue.redis.command('REPLICAOF', 'NO', 'ONE');
      nobody.close();
      await eventually('Redis is a master', async () =>
        /role:master/.test(String(await queue.redis.command('INFO', 'replication'))),
      );
    };
  },
};

export const flushScripts: Fault = {
  name: 'scripts flushed',
  weight: 3,
  touches: 'queue',
  holdMs: [0, 50],
  begin: async ({ queue }) => {
    await queue.redis.command('SCRIPT', 'FLUSH');
    return () => undefined;
  },
};
