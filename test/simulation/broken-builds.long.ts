// `make simulate` tries all builds. `make ingest-test-long` tries only builds whose error is found after a few seeds.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BROKEN_BUILDS, foundBy, SEEDS } from './broken-builds.ts';

const NAMES = Object.keys(BROKEN_BUILDS) as (keyof typeof BROKEN_BUILDS)[];
const TRIED_WITH_THE_SUITE = ['acknowledges before landing', 'answers 202 before Redis did'] as const;

describe('a simulation', () => {
  for (const name of process.env['SIM_BUILDS'] === 'all' ? NAMES : TRIED_WITH_THE_SUITE)
    it(`finds a build that ${name} within ${SEEDS} seeds`, async (t) => {
      const { seed, said } = await foundBy(name);
      t.diagnostic(`seed ${seed ?? 'none'}`);
      assert.match(said, BROKEN_BUILDS[name]);
    });
});
