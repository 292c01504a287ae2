// Each build is the product with one wrong change, and the campaign must find that change. The same faults must not
// find anything in the product itself. `make ingest-test-long` tries one build, and `make campaign` tries all.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { temporaryFolder } from '../support/scope.ts';
import { brokenBuild } from './broken-build.ts';
import { BROKEN_BUILDS, type BrokenBuild } from './broken-builds.ts';
import { runCampaign, type CampaignOptions, type Outcome } from './campaign.ts';
import { planned } from './plan.ts';
import { ROUNDS } from './settings.ts';

const NAMES = Object.keys(BROKEN_BUILDS) as (keyof typeof BROKEN_BUILDS)[];
const TRIED = ROUNDS === undefined ? (['answers 202 before Redis did'] as const) : NAMES;
const NO_ROW = /answered 202, and there is no row/;

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

describe('a campaign', () => {
  for (const name of TRIED)
    it(`catches a build that ${name}`, async () => {
      const broken: BrokenBuild = BROKEN_BUILDS[name];
      const options = { product: brokenBuild(name), settleTimeoutMs: SETTLE_TIMEOUT_MS };
      const { violations = 'no violation was found' } = await campaign(options, broken);
      assert.match(violations, broken.finds ?? NO_ROW);
    });

  it('finds nothing with the same faults in the product', async () => {
    const { violations = '' } = await campaign(
      { settleTimeoutMs: PATIENT_SETTLE_TIMEOUT_MS },
      ...TRIED.map((name) => BROKEN_BUILDS[name]),
    );
    assert.equal(violations, '', violations);
  });
});
