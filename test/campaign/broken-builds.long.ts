// Each build is the product with one wrong change, and the campaign must find that change. The same faults must not
// find anything in the product itself. `make ingest-test-long` tries one build, and `make campaign` tries all.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { temporaryFolder } from '../support/scope.ts';
import { brokenBuild, CHANGES, type Change } from './broken-build.ts';
import { runCampaign, type CampaignOptions, type Outcome } from './campaign.ts';
import { clockAhead } from './faults/clock.ts';
import { failingWarehouseFsync } from './faults/disk.ts';
import type { Fault } from './faults/fault.ts';
import { freezeConsumers, killConsumers, killProducer, rotateCredentials } from './faults/programs.ts';
import { commandsHeld, namesUnknown } from './faults/links.ts';
import { freezeAndKillQueue } from './faults/queue.ts';
import { lockWarehouse } from './faults/warehouse.ts';
import { planned } from './plan.ts';
import { ROUNDS } from './settings.ts';

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

interface BrokenBuild {
  readonly name: string;
  readonly change: Change;
  readonly rounds: readonly (readonly Fault[])[];
  readonly finds: RegExp;
  readonly clockS?: number;
}

const BROKEN_BUILDS: readonly BrokenBuild[] = [
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
      from: 'if (client !== this.#client) return;\n      this.#lose(',
      to: `if (client !== this.#client) return;
      if (String(cause).includes('EAI_AGAIN')) return void this.close();
      this.#lose(`,
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
      from: '(settled && digest !== this.#digest)',
      to: 'digest !== this.#digest',
    },
    // Only about one gateway in three reads a half-written file, so the fault is repeated.
    rounds: Array.from({ length: 12 }, () => [lasting(rotateCredentials, 0)]),
    finds: /a good event was refused for good/,
  },
];

const TRIED_WITH_THE_SUITE: readonly string[] = ['answers 202 before Redis did'];
const TRIED = BROKEN_BUILDS.filter(({ name }) => ROUNDS !== undefined || TRIED_WITH_THE_SUITE.includes(name));

const LOGS = temporaryFolder();
/** This time is longer than a consumer waits before it claims another consumer's entries. */
const SETTLE_TIMEOUT_MS = 30_000;
/** The product itself gets more time, because it must not fail on a busy machine. */
const PATIENT_SETTLE_TIMEOUT_MS = 120_000;

function campaign(
  options: Pick<CampaignOptions, 'product' | 'settleTimeoutMs'>,
  ...builds: BrokenBuild[]
): Promise<Outcome> {
  const rounds = builds.flatMap((build) => build.rounds);
  return runCampaign({
    kind: 'sqlite',
    rounds: rounds.length,
    seed: 1,
    plan: () => planned(...rounds),
    say: () => undefined,
    calmEvents: 100,
    ...(options.product === undefined ? {} : { logsUnder: LOGS }),
    clockS: Math.min(...builds.map(({ clockS = 0 }) => clockS)),
    ...options,
  });
}

describe('a broken build', () => {
  for (const { name, change } of BROKEN_BUILDS)
    it(`that ${name} changes text that occurs in the code once`, () => {
      assert.doesNotThrow(() => brokenBuild(change));
    });
});

describe('a campaign', () => {
  for (const broken of TRIED) {
    it(`catches a build that ${broken.name}`, async () => {
      const options = { product: brokenBuild(broken.change), settleTimeoutMs: SETTLE_TIMEOUT_MS };
      const { violations = 'no violation was found' } = await campaign(options, broken);
      assert.match(violations, broken.finds);
    });
  }

  it('finds nothing with the same faults in the product', async () => {
    const { violations = '' } = await campaign({ settleTimeoutMs: PATIENT_SETTLE_TIMEOUT_MS }, ...TRIED);
    assert.equal(violations, '', violations);
  });
});
