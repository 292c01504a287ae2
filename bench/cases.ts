// All cases, in order. Saturation comes first, because other cases use its rate.
import type { BenchCase } from './bench-case.ts';
import { idleConnections } from './cases/idle-connections.ts';
import { landing } from './cases/landing.ts';
import { largeBodies } from './cases/large-bodies.ts';
import { latency } from './cases/latency.ts';
import { newConnections } from './cases/new-connections.ts';
import { overload } from './cases/overload.ts';
import { pipelining } from './cases/pipelining.ts';
import { queueMemory } from './cases/queue-memory.ts';
import { saturation } from './cases/saturation.ts';
import { sender } from './cases/sender.ts';

export const CASES: readonly BenchCase[] = [
  saturation,
  latency,
  overload,
  newConnections,
  largeBodies,
  pipelining,
  idleConnections,
  queueMemory,
  landing,
  sender,
];
