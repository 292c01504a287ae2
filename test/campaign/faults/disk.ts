// Full disks and failing fsync, for the warehouse and the queue. Servers that exit are restarted once the disk works.
import { eventually } from '../../support/scope.ts';
import type { QueueServer } from '../queue-server.ts';
import { fault, type Fault } from './fault.ts';

export const fullWarehouseDisk = fault(
  "the warehouse's disk full",
  'warehouse',
  3,
  [200, 2_000],
  ({ options: { warehouse, warehouseVolume }, consumers }) => {
    const writers = warehouse.server?.processes() ?? consumers.flatMap(({ pid }) => pid ?? []);
    warehouseVolume.fill(writers);
    return async () => {
      warehouseVolume.empty(warehouse.server?.processes() ?? writers);
      await warehouse.server?.start();
    };
  },
);

/** If fsync fails, PostgreSQL restarts all of its processes, and SQLite fails the transaction. */
export const failingWarehouseFsync: Fault = {
  ...fault("fsync of the warehouse's disk fails", 'warehouse', 2, [200, 1_500], ({ options: { warehouse } }) => {
    warehouse.fsync.begin();
    return async () => {
      warehouse.fsync.end();
      await warehouse.server?.start();
    };
  }),
  met: ({ options: { warehouse } }) => warehouse.fsync.met,
};

export const fullQueueDisk = fault("Redis' disk full", 'queue', 2, [100, 800], ({ queue }) => {
  queue.volume.fill([queue.redis.pid]);
  return async () => {
    queue.volume.empty(queue.redis.running ? [queue.redis.pid] : []);
    await runs(queue);
  };
});

/** With `appendfsync always`, Redis exits if fsync fails. */
export const failingQueueFsync: Fault = {
  ...fault("fsync of Redis' disk fails", 'queue', 2, [100, 800], ({ queue }) => {
    queue.fsync.begin();
    return async () => {
      queue.fsync.end();
      await runs(queue);
    };
  }),
  met: ({ queue }) => queue.fsync.met,
};

/** Waits until Redis runs. A server whose disk failed may be about to exit, so Redis may have to be restarted. */
async function runs(queue: QueueServer): Promise<void> {
  await eventually('Redis runs', async () => {
    if (!queue.redis.running) await queue.redis.start();
    return (await queue.redis.command('PING')) === 'PONG';
  });
}
