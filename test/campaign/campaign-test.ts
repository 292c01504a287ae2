import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { runCampaign } from './campaign.ts';
import { FAULTS } from './faults/all.ts';
import { planAtRandom } from './plan.ts';
import { ROUNDS, SEED, type WarehouseKind } from './settings.ts';

const TIMEOUT_MS = { start: 300_000, round: 60_000 };

export function describeCampaign(kinds: readonly WarehouseKind[], rounds: number): void {
  describe(`campaign (CAMPAIGN_SEED=${SEED})`, () => {
    for (const kind of kinds) {
      it(
        `every event that was answered 202 has one row, byte for byte, whatever fails (${kind}, ${rounds} rounds)`,
        { timeout: TIMEOUT_MS.start + rounds * TIMEOUT_MS.round },
        async (t) => {
          const say = (line: string): void => void process.stderr.write(`${line}\n`);
          if (ROUNDS !== undefined) say(`campaign on ${kind}: CAMPAIGN_SEED=${SEED}`);
          const faults = FAULTS.filter(({ needsServer }) => needsServer !== true || kind === 'postgres');
          const outcome = await runCampaign({
            kind,
            rounds,
            seed: SEED,
            say,
            plan: (random) => planAtRandom(faults, random),
          });
          const counts = [...outcome.faults].map(([name, count]) => `${count} × ${name}`).join(', ');
          t.diagnostic(
            `${kind}: ${outcome.accepted} events accepted and landed, ${Math.round(outcome.calmRate)}/s while nothing was broken; ${counts}`,
          );
          const { violations = '' } = outcome;
          assert.equal(violations, '', violations);
        },
      );
    }
  });
}
