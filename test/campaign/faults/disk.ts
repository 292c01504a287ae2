// Full disks and failing fsync, for the warehouse and the queue. Servers that exit are restarted once the disk works.
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

/** If fsync fails, PostgreSQL restarts all of its processes, and SQLite fails the transaction. */
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

/** With `appendfsync always`, Redis exits if fsync fails. */
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

/** Waits until Redis runs. A server whose disk failed may be about to exit, so Redis may have to be restarted. */
async function runs(queue: QueueServer): Promise<void> {
  await eventually('Redis runs', async () => {
    if (!queue.redis.running) await queue.redis.start();
    return (await queue.redis.command('PING')) === 'PONG';
  });
}
