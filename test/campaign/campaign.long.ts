// `make campaign` runs many rounds, and `make ingest-test-long` runs a few.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { runCampaign } from './campaign.ts';
import { ROUNDS, SEED, WAREHOUSES } from './settings.ts';

const TIMEOUT_MS = { start: 300_000, round: 60_000 };
const rounds = ROUNDS ?? 3;
const timeout = TIMEOUT_MS.start + rounds * TIMEOUT_MS.round;

describe(`campaign (CAMPAIGN_SEED=${SEED})`, () => {
  for (const kind of WAREHOUSES)
    it(
      `every event that was answered 202 has one row, byte for byte, whatever fails (${kind}, ${rounds} rounds)`,
      { timeout },
      async (t) => {
        const say = (line: string): void => void process.stderr.write(`${line}\n`);
        if (ROUNDS !== undefined) say(`campaign on ${kind}: CAMPAIGN_SEED=${SEED}`);
        const outcome = await runCampaign({ kind, rounds, seed: SEED, say });
        const counts = [...outcome.counts].map(([name, count]) => `${count} × ${name}`).join(', ');
        const rate = Math.round(outcome.calmRate);
        t.diagnostic(`${kind}: ${outcome.accepted} events landed, ${rate}/s while nothing was broken; ${counts}`);
        const { violations = '' } = outcome;
        assert.equal(violations, '', violations);
      },
    );
});
