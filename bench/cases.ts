// All cases, in the order in which they run. Saturation is first: others take shares of it.
import type { BenchCase } from './bench-case.ts';
import { allocation } from './cases/allocation.ts';
import { floods } from './cases/floods.ts';
import { idleConnections } from './cases/idle-connections.ts';
import { invalidRequests } from './cases/invalid-requests.ts';
import { landing } from './cases/landing.ts';
import { largeBodies } from './cases/large-bodies.ts';
import { latency } from './cases/latency.ts';
import { newConnections } from './cases/new-connections.ts';
import { overload } from './cases/overload.ts';
import { pacedLatency } from './cases/paced-latency.ts';
import { partitions } from './cases/partitions.ts';
import { queueMemory } from './cases/queue-memory.ts';
import { replicas } from './cases/replicas.ts';
import { saturation } from './cases/saturation.ts';
import { sender } from './cases/sender.ts';
import { synchronousRedis } from './cases/synchronous-redis.ts';

export const CASES: readonly BenchCase[] = [
  saturation,
  latency,
  pacedLatency,
  overload,
  floods,
  newConnections,
  largeBodies,
  invalidRequests,
  synchronousRedis,
  partitions,
  replicas,
  idleConnections,
  queueMemory,
  allocation,
  landing,
  sender,
];
