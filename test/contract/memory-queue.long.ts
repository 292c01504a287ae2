// The queue in memory passes the contract suite, so tests may use it instead of Redis.
import { MemoryQueue, MemoryQueueStore } from '../support/memory-queue.ts';
import { queueContract } from './queue.ts';

queueContract('a queue in memory', () => {
  const store = new MemoryQueueStore();
  return Promise.resolve({
    open: (retentionMs) => Promise.resolve(new MemoryQueue(store, retentionMs)),
    land: () => Promise.resolve(store.land()),
    outage: (during) => during(),
    bodies: () => Promise.resolve(store.entries.map(({ body }) => body)),
  });
});
