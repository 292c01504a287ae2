// A disk that is full, or whose fsync fails: the warehouse's, and the queue's. Servers that end over it are started
// again when there is room, or fsync works.
import { eventually } from '../../support/scope.ts';
import type { QueueServer } from '../queue-server.ts';
import type { Fault } from './fault.ts';

export const fullWarehouseDisk: Fault = {
  name: "the warehouse's disk full",
  weight: 3,
  touches: 'warehouse',
  holdMs: [200, 2_000],
  begin: ({ options: { warehouse, warehouseVolume }, consumers }) => {
    const writers = warehouse.server?.processes() ?? consumers.flatMap(({ pid }) => pid ?? []);
    warehouseVolume.fill(writers);
    return async () => {
      warehouseVolume.empty(warehouse.server?.processes() ?? writers);
      await warehouse.server?.start();
    };
  },
};

/** PostgreSQL ends all of its processes over it and recovers; SQLite fails the transaction. */
export const failingWarehouseFsync: Fault = {
  name: "fsync of the warehouse's disk fails",
  weight: 2,
  touches: 'warehouse',
  holdMs: [200, 1_500],
  met: ({ options: { warehouse } }) => warehouse.fsync.met,
  begin: ({ options: { warehouse } }) => {
    warehouse.fsync.begin();
    return async () => {
      warehouse.fsync.end();
      await warehouse.server?.start();
    };
  },
};

export const fullQueueDisk: Fault = {
  name: "Redis' disk full",
  weight: 2,
  touches: 'queue',
  holdMs: [100, 800],
  begin: ({ queue }) => {
    queue.volume.fill([queue.redis.pid]);
    return async () => {
      queue.volume.empty(queue.redis.running ? [queue.redis.pid] : []);
      await runs(queue);
    };
  },
};

/** With `appendfsync always` Redis answers nothing that is not on the disk: it ends. */
export const failingQueueFsync: Fault = {
  name: "fsync of Redis' disk fails",
  weight: 2,
  touches: 'queue',
  holdMs: [100, 800],
  met: ({ queue }) => queue.fsync.met,
  begin: ({ queue }) => {
    queue.fsync.begin();
    return async () => {
      queue.fsync.end();
      await runs(queue);
    };
  },
};

/** One that met the broken disk a moment ago is about to end, and answers no more. */
async function runs(queue: QueueServer): Promise<void> {
  await eventually('Redis runs', async () => {
    if (!queue.redis.running) await queue.redis.start();
    return (await queue.redis.command('PING')) === 'PONG';
  });
}
