// The queue in memory passes both contract suites, so tests may use it instead of Redis.
import { MemoryQueue, MemoryQueueReader, MemoryQueueStore } from '../support/memory-queue.ts';
import { queueContract } from './queue.ts';
import { describeQueueReader } from './queue-reader.ts';

queueContract('a queue in memory', () => {
  const store = new MemoryQueueStore();
  return Promise.resolve({
    open: (retentionMs) => Promise.resolve(new MemoryQueue(store, retentionMs)),
    land: () => Promise.resolve(store.land()),
    outage: (during) => during(),
    bodies: () => Promise.resolve([store.entries.map(({ body }) => body ?? '')]),
  });
});

describeQueueReader('a queue in memory', () => {
  const store = new MemoryQueueStore();
  return Promise.resolve({
    open: () => Promise.resolve(new MemoryQueueReader(store)),
    put: ({ producer, body, another: _, note: __, ...notes }, acceptedAtMs) =>
      Promise.resolve(store.add(producer, body, acceptedAtMs, notes).entry),
    drop: (entry) => Promise.resolve(store.drop(entry)),
    pending: () => Promise.resolve(store.group?.pending.size ?? 0),
    wipe: () => Promise.resolve(store.wipe()),
    close: () => Promise.resolve(),
  });
});
