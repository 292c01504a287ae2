import type { BenchCase } from './bench-case.ts';
import { idleConnections } from './cases/idle-connections.ts';
import { landing } from './cases/landing.ts';
import { ordinary } from './cases/ordinary.ts';
import { overload } from './cases/overload.ts';
import { pipelining } from './cases/pipelining.ts';
import { queueMemory } from './cases/queue-memory.ts';
import { saturation } from './cases/saturation.ts';
import { sender } from './cases/sender.ts';
import { whole } from './cases/whole.ts';

export const CASES: readonly BenchCase[] = [
  ...[saturation, ordinary, overload, pipelining, idleConnections, queueMemory, landing, whole, sender],
];

export const ROUNDS_DEFAULT = 5;

/** The rounds of a published figure. */
export const roundsWanted = ({ roundsMax }: BenchCase): number => Math.min(roundsMax ?? ROUNDS_DEFAULT, ROUNDS_DEFAULT);
