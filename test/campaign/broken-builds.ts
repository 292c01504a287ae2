// Builds with one wrong change each, and the faults with which the campaign finds the change.
import { CHANGES, type Change } from './broken-build.ts';
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
  readonly name: string;
  readonly change: Change;
  readonly rounds: readonly (readonly Fault[])[];
  readonly finds: RegExp;
  readonly clockS?: number;
}

export const BROKEN_BUILDS: readonly BrokenBuild[] = [
  {
    name: 'acknowledges before landing',
    change: CHANGES['acknowledges before landing'],
    rounds: [[lasting(lockWarehouse, 800), lasting(killConsumers, 0)]],
    finds: /answered 202, and there is no row/,
  },
  {
    name: 'never claims',
    change: CHANGES['never claims'],
    rounds: [[lasting(lockWarehouse, 800), lasting(killConsumers, 0)]],
    finds: /answered 202, and there is no row/,
  },
  {
    name: 'answers 202 before Redis did',
    change: CHANGES['answers 202 before Redis did'],
    rounds: [[lasting(freezeAndKillQueue, 200)]],
    finds: /answered 202, and there is no row/,
  },
  {
    name: 'trims what has not landed',
    change: CHANGES['trims what has not landed'],
    rounds: [[lasting(freezeConsumers, 1_000), lasting(clockAhead, 8_000)]],
    finds: /answered 202, and there is no row/,
    clockS: -25 * 3_600,
  },
  {
    name: 'accepts what the queue did not answer in time',
    change: CHANGES['accepts what the queue did not answer in time'],
    rounds: [[lasting(commandsLost, 1_500)]],
    finds: /answered 202, and there is no row/,
  },
  {
    name: 'takes an fsync that failed in the warehouse for a landing',
    change: CHANGES['takes an outage of the warehouse for a landing'],
    rounds: [[lasting(failingWarehouseFsync, 1_500)]],
    finds: /answered 202, and there is no row/,
  },
  {
    name: 'gives up a queue whose name does not resolve',
    change: {
      file: 'lib/redis/server/connection.ts',
      from: 'onLost: (cause) =>\n        this.#lose(',
      to: `onLost: (cause) => messageOf(causeOf(cause)).includes('EAI_AGAIN') ? this.close() : this.#lose(`,
    },
    rounds: [[lasting(namesUnknown, 1_500)]],
    finds: /the rounds ended early|not everything has landed in time/,
  },
  {
    name: 'forgets what its journal holds',
    change: {
      file: 'lib/send/client.ts',
      from: 'journal?.resumed() ?? []',
      to: '[] as { body: Buffer; number: number }[]',
    },
    // A producer may be killed while it has no unanswered event, so the fault is repeated.
    rounds: Array.from({ length: 3 }, () => [lasting(freezeAndKillQueue, 300), lasting(killProducer, 0)]),
    finds: /answered 202, and there is no row/,
  },
  {
    name: 'takes files into use that are half written',
    change: {
      file: 'lib/process/reloadable.ts',
      from: '(this.#settled && digest !== this.#digest)',
      to: 'digest !== this.#digest',
    },
    // Only about one gateway in three reads a half-written file, so the fault is repeated.
    rounds: Array.from({ length: 12 }, () => [lasting(rotateCredentials, 0)]),
    finds: /a good event was refused for good/,
  },
];
