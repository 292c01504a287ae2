// Each build is the product with one wrong change, and the campaign must find that change. The same faults must not
// find anything in the product itself. `make ingest-test-long` tries one build, and `make campaign` tries all.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { temporaryFolder } from '../support/scope.ts';
import { brokenBuild } from './broken-build.ts';
import { runCampaign, type CampaignOptions } from './campaign.ts';
import { faultNamed, held, type FaultName, type NamedFault } from './faults.ts';
import { ROUNDS } from './settings.ts';

interface BrokenBuild {
  /** The faults with which the campaign finds the build. */
  readonly rounds: readonly (readonly NamedFault[])[];
  /** By default, an accepted event has no row. */
  readonly finds?: RegExp;
  readonly clockS?: number;
}

const lasting = (name: FaultName, ms: number): NamedFault => faultNamed(name, { holdMs: [ms, ms] });

const KILLED_WHILE_LOCKED = [[lasting('warehouse locked', 800), lasting('all consumers killed', 0)]];
/** Commands are lost, not only late. */
const COMMANDS_LOST = faultNamed('link to Redis cut one way: no commands', {
  holdMs: [1_500, 1_500],
  begin: ({ queue: { link } }) => held(link, 'to the server', true),
});

const BROKEN_BUILDS = {
  'acknowledges before landing': { rounds: KILLED_WHILE_LOCKED },
  'never claims': { rounds: KILLED_WHILE_LOCKED },
  'answers 202 before redis did': { rounds: [[lasting('Redis frozen, then killed', 200)]] },
  'trims what has not landed': {
    rounds: [[lasting('all consumers frozen', 1_000), lasting('clock of Redis 25 h ahead, and back', 8_000)]],
    clockS: -25 * 3_600,
  },
  'accepts what the queue did not answer in time': { rounds: [[COMMANDS_LOST]] },
  'takes an outage of the warehouse for a landing': {
    rounds: [[lasting("fsync of the warehouse's disk fails", 1_500)]],
  },
  'gives up a queue whose name does not resolve': {
    rounds: [[lasting('names do not resolve', 1_500)]],
    finds: /the rounds ended early|not everything has landed in time/,
  },
  // A producer may be killed while it has no unanswered event, so the fault is repeated.
  'forgets what its journal holds': {
    rounds: Array.from({ length: 3 }, () => [
      lasting('Redis frozen, then killed', 300),
      lasting('producer with a journal killed', 0),
    ]),
  },
  // A gateway checks its files every 0.7 s and rarely finds one half-written, so the fault is repeated.
  'takes files into use that are half written': {
    rounds: Array.from({ length: 16 }, () => [
      lasting('certificates, revocation lists and the producers file replaced', 0),
    ]),
    finds: /a good event was refused for good/,
  },
} as const satisfies Readonly<Record<string, BrokenBuild>>;

const NAMES = Object.keys(BROKEN_BUILDS) as (keyof typeof BROKEN_BUILDS)[];
const TRIED = ROUNDS === undefined ? (['answers 202 before redis did'] as const) : NAMES;
const NO_ROW = /answered 202, and there is no row/;

const LOGS = temporaryFolder();
/** This time is longer than a consumer waits before it claims another consumer's entries. */
const SETTLE_TIMEOUT_MS = 30_000;
/** The product itself gets more time, because it must not fail on a busy machine. */
const PATIENT_SETTLE_TIMEOUT_MS = 120_000;

async function found(options: Partial<CampaignOptions>, ...builds: BrokenBuild[]): Promise<string> {
  const rounds = builds.flatMap((build) => build.rounds);
  const { violations = '' } = await runCampaign({
    ...{ kind: 'sqlite', rounds: rounds.length, seed: 1, calmEvents: 100, say: () => undefined },
    plan: (round) => rounds[round] ?? [],
    clockS: Math.min(...builds.map(({ clockS = 0 }) => clockS)),
    ...options,
  });
  return violations;
}

describe('a campaign', () => {
  for (const name of TRIED)
    it(`catches a build that ${name}`, async () => {
      const broken: BrokenBuild = BROKEN_BUILDS[name];
      const options = { product: brokenBuild(name), settleTimeoutMs: SETTLE_TIMEOUT_MS, logsUnder: LOGS };
      assert.match(await found(options, broken), broken.finds ?? NO_ROW);
    });

  it('finds nothing with the same faults in the product', async () => {
    const builds = TRIED.map((name) => BROKEN_BUILDS[name]);
    assert.equal(await found({ settleTimeoutMs: PATIENT_SETTLE_TIMEOUT_MS }, ...builds), '');
  });
});
