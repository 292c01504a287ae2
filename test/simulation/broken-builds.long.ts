// Builds with one deliberate error each. The simulation must find every error within SEEDS seeds. `make simulate` tries
// all builds. `make ingest-test-long` tries only builds whose error is found after a few seeds.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { brokenBuild, PRODUCT } from '../campaign/broken-build.ts';

const SEEDS = 300;

const ON_NO_QUEUE = /answered 202 for .*, and it is on no queue/;
const NOWHERE = /was accepted, and is nowhere/;

/** Each build, and what the simulation finds. */
const BROKEN_BUILDS = {
  'acknowledges before landing': ON_NO_QUEUE,
  'never claims': /have not landed/,
  'answers 202 before redis did': ON_NO_QUEUE,
  'trims what has not landed': ON_NO_QUEUE,
  'reads without keeping what it holds in the group': ON_NO_QUEUE,
  'takes an outage of the warehouse for a landing': ON_NO_QUEUE,
  'acknowledges a whole batch when a part of it has landed': ON_NO_QUEUE,
  'acknowledges what belongs in quarantine': ON_NO_QUEUE,
  'removes the row of a replayed event that was refused again': /on no queue|and is nowhere/,
  'prunes rows of any age': NOWHERE,
  'drops the second event of an id that the queue has forgotten': NOWHERE,
  'accepts what the queue did not answer in time': ON_NO_QUEUE,
  'sets a time limit for the first call alone': /ms late/,
  'calls another producers id a duplicate': ON_NO_QUEUE,
  'does not give back what it admitted': /in flight|that are answered/,
  'looks in the queue when the warehouse is unavailable': /a look-up says (404|accepted)/,
  'knows no event while the queue is unavailable': /a look-up says 404/,
} as const satisfies Readonly<Record<string, RegExp>>;

/** Returns the output of the simulation, and the seed that found a violation if there was one. */
async function foundBy(name: string): Promise<{ readonly seed: string | undefined; readonly said: string }> {
  const folder = brokenBuild(name);
  for (const part of ['test/simulation', 'test/support', 'test/campaign'])
    cpSync(join(PRODUCT, part), join(folder, part), { recursive: true });
  const said = await new Promise<string>((resolve) => {
    const args = ['--disable-warning=ExperimentalWarning', join(folder, 'test/simulation/simulate.ts')];
    const env = { ...process.env, SIM_SEEDS: String(SEEDS), SIM_FROM: '1' };
    execFile(process.execPath, args, { env }, (_, out, errors) => resolve(out + errors));
  });
  return { seed: /^seed (\d+): /m.exec(said)?.[1], said };
}

const NAMES = Object.keys(BROKEN_BUILDS) as (keyof typeof BROKEN_BUILDS)[];
const TRIED_WITH_THE_SUITE = ['acknowledges before landing', 'answers 202 before redis did'] as const;

describe('a simulation', () => {
  for (const name of process.env['SIM_BUILDS'] === 'all' ? NAMES : TRIED_WITH_THE_SUITE)
    it(`finds a build that ${name} within ${SEEDS} seeds`, async (t) => {
      const { seed, said } = await foundBy(name);
      t.diagnostic(`seed ${seed ?? 'none'}`);
      assert.match(said, BROKEN_BUILDS[name]);
    });
});
