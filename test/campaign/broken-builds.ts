// The faults with which the campaign finds each broken build.
import type { ChangeName } from './broken-build.ts';
import { clockAhead } from './faults/clock.ts';
import { failingWarehouseFsync } from './faults/disk.ts';
import type { Fault } from './faults/fault.ts';
import { commandsHeld, namesUnknown } from './faults/links.ts';
import { freezeConsumers, killConsumers, killProducer, rotateCredentials } from './faults/programs.ts';
import { freezeAndKillQueue } from './faults/queue.ts';
import { lockWarehouse } from './faults/warehouse.ts';

/** Commands are lost, not only late. */
const commandsLost: Fault = {
  ...commandsHeld,
  begin: ({ queue: { link } }) => {
    link.hold('to the server');
    return () => {
      link.cut();
      link.mend();
    };
  },
};

const lasting = (fault: Fault, ms: number): Fault => ({ ...fault, holdMs: [ms, ms] });

export interface BrokenBuild {
  readonly rounds: readonly (readonly Fault[])[];
  /** By default, an accepted event has no row. */
  readonly finds?: RegExp;
  readonly clockS?: number;
}

const KILLED_WHILE_LOCKED = [[lasting(lockWarehouse, 800), lasting(killConsumers, 0)]];

export const BROKEN_BUILDS = {
  'acknowledges before landing': { rounds: KILLED_WHILE_LOCKED },
  'never claims': { rounds: KILLED_WHILE_LOCKED },
  'answers 202 before Redis did': { rounds: [[lasting(freezeAndKillQueue, 200)]] },
  'trims what has not landed': {
    rounds: [[lasting(freezeConsumers, 1_000), lasting(clockAhead, 8_000)]],
    clockS: -25 * 3_600,
  },
  'accepts what the queue did not answer in time': { rounds: [[lasting(commandsLost, 1_500)]] },
  'takes an outage of the warehouse for a landing': { rounds: [[lasting(failingWarehouseFsync, 1_500)]] },
  'gives up a queue whose name does not resolve': {
    rounds: [[lasting(namesUnknown, 1_500)]],
    finds: /the rounds ended early|not everything has landed in time/,
  },
  // A producer may be killed while it has no unanswered event, so the fault is repeated.
  'forgets what its journal holds': {
    rounds: Array.from({ length: 3 }, () => [lasting(freezeAndKillQueue, 300), lasting(killProducer, 0)]),
  },
  // Only about one gateway in three reads a half-written file, so the fault is repeated.
  'takes files into use that are half written': {
    rounds: Array.from({ length: 12 }, () => [lasting(rotateCredentials, 0)]),
    finds: /a good event was refused for good/,
  },
} as const satisfies Partial<Record<ChangeName, BrokenBuild>>;
