// The queue's server: killed, frozen, full, read-only, without its scripts.
import { createServer } from 'node:net';
import { eventually } from '../../support/scope.ts';
import type { Fault } from './fault.ts';

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

/** What was sent to it and not yet read is lost with it. */
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

/** A replica of a server that is not there. */
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
