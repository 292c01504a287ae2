import { createServer } from 'node:net';
import { eventually } from '../../support/scope.ts';
import { fault } from './fault.ts';

const OLD_ENTRIES_MIN = 1_000;

export const killQueue = fault('Redis killed', 'queue', 4, [0, 400], async ({ queue }) => {
  await queue.redis.signal('SIGKILL');
  return () => queue.redis.start();
});

export const freezeQueue = fault('Redis frozen', 'queue', 4, [50, 1_200], async ({ queue }) => {
  await queue.redis.signal('SIGSTOP');
  return () => queue.redis.signal('SIGCONT');
});

/** Redis never reads the commands that were sent while it was frozen. */
export const freezeAndKillQueue = fault('Redis frozen, then killed', 'queue', 2, [30, 300], async ({ queue }) => {
  await queue.redis.signal('SIGSTOP');
  return async () => {
    await queue.redis.signal('SIGKILL');
    await queue.redis.start();
  };
});

export const fullQueue = fault('Redis full', 'queue', 4, [50, 800], async ({ queue }) => {
  await queue.redis.command('CONFIG', 'SET', 'maxmemory', '1');
  return async () => void (await queue.redis.command('CONFIG', 'SET', 'maxmemory', '0'));
});

/** Redis is full of old entries that have landed. Trimming them must make room for new events. */
export const fullOfOld = fault(
  'a day goes by, and Redis is full of what has landed',
  'queue',
  1,
  [0, 200],
  async (world) => {
    const { queue } = world;
    const { redis, clock } = queue;
    // Entries are old only if the stretch started in the past and its clock has not been set ahead yet.
    const fills = clock.startS < 0 && clock.moves === 0 && (await redis.length()) >= OLD_ENTRIES_MIN;
    if (!fills) return () => undefined;
    await queue.setClock(-clock.startS);
    const [, used] = /used_memory:(\d+)/.exec(String(await redis.command('INFO', 'memory'))) ?? [];
    await redis.command('CONFIG', 'SET', 'maxmemory', String(used));
    return async () => {
      await world.accepts(OLD_ENTRIES_MIN / 10);
      await redis.command('CONFIG', 'SET', 'maxmemory', '0');
      await queue.setClock(0);
    };
  },
);

/** Redis is read-only because it is the replica of a server that closes every connection. */
export const readOnlyQueue = fault('Redis read-only', 'queue', 4, [50, 800], async ({ queue }) => {
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
});

export const flushScripts = fault('scripts flushed', 'queue', 3, [0, 50], async ({ queue }) => {
  await queue.redis.command('SCRIPT', 'FLUSH');
  return () => undefined;
});
