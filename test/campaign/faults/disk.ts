// A disk that is full: the warehouse's, and the queue's. Servers that end over it are started again when there is room.
import { eventually } from '../../support/scope.ts';
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

export const fullQueueDisk: Fault = {
  name: "Redis' disk full",
  weight: 2,
  touches: 'queue',
  holdMs: [100, 800],
  begin: ({ queue }) => {
    queue.volume.fill([queue.redis.pid]);
    return async () => {
      queue.volume.empty(queue.redis.running ? [queue.redis.pid] : []);
      // One that met the full disk a moment ago is about to end, and answers no more.
      await eventually('Redis runs', async () => {
        if (!queue.redis.running) await queue.redis.start();
        return (await queue.redis.command('PING')) === 'PONG';
      });
    };
  },
};
