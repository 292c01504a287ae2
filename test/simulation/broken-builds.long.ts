// `make simulate` tries all builds. `make ingest-test-long` tries only builds whose error is found after a few seeds.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BROKEN_BUILDS, foundBy, SEEDS } from './broken-builds.ts';

const TRIED_WITH_THE_SUITE: readonly string[] = ['acknowledges before landing', 'answers 202 before Redis did'];
const TRIED = BROKEN_BUILDS.filter(
  ({ name }) => process.env['SIM_BUILDS'] === 'all' || TRIED_WITH_THE_SUITE.includes(name),
);

describe('a simulation', () => {
  for (const broken of TRIED)
    it(`finds a build that ${broken.name} within ${SEEDS} seeds`, async (t) => {
      const { seed, said } = await foundBy(broken);
      t.diagnostic(`seed ${seed ?? 'none'}`);
      assert.match(said, broken.finds);
    });
});
