// Builds with one deliberate error each. The simulation must find every error within SEEDS seeds.
import { execFile } from 'node:child_process';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { brokenBuild, CHANGES, type Change } from '../campaign/broken-build.ts';
import { PRODUCT } from '../campaign/campaign.ts';

export const SEEDS = 300;

export interface BrokenBuild {
  readonly name: string;
  readonly change: Change;
  readonly finds: RegExp;
}

const NOWHERE = /answered 202 for .*, and it is on no queue/;

export const BROKEN_BUILDS: readonly BrokenBuild[] = [
  {
    name: 'acknowledges before landing',
    change: CHANGES['acknowledges before landing'],
    finds: NOWHERE,
  },
  {
    name: 'never claims',
    change: CHANGES['never claims'],
    finds: /have not landed/,
  },
  {
    name: 'answers 202 before Redis did',
    change: CHANGES['answers 202 before Redis did'],
    finds: NOWHERE,
  },
  {
    name: 'trims what has not landed',
    change: CHANGES['trims what has not landed'],
    finds: NOWHERE,
  },
  {
    name: 'reads without keeping what it holds in the group',
    change: {
      file: 'lib/redis/read/entry-reading.ts',
      from: 'String(max), ...block]',
      to: "String(max), ...block, 'NOACK']",
    },
    finds: NOWHERE,
  },
  {
    name: 'takes an outage of the warehouse for a landing',
    change: CHANGES['takes an outage of the warehouse for a landing'],
    finds: NOWHERE,
  },
  {
    name: 'acknowledges a whole batch when a part of it has landed',
    change: {
      file: 'lib/consumer/consumer.ts',
      from: 'reader.acknowledge(some.done)',
      to: 'reader.acknowledge(now)',
    },
    finds: NOWHERE,
  },
  {
    name: 'acknowledges what belongs in quarantine',
    change: { file: 'lib/consumer/landing.ts', from: 'await this.#quarantine(rejections);', to: 'rejections;' },
    finds: NOWHERE,
  },
  {
    name: 'removes the row of a replayed event that was refused again',
    change: {
      file: 'lib/consumer/landing.ts',
      from: 'await this.#release(landed.flatMap(',
      to: 'await this.#release(some.flatMap(',
    },
    finds: /on no queue|and is nowhere/,
  },
  {
    name: 'prunes rows of any age',
    change: {
      file: 'lib/admin/prune.ts',
      from: 'Math.max(PRUNE_AGE_MS_MIN, oldest + CLOCK_MARGIN_MS)',
      to: 'Math.min(0, PRUNE_AGE_MS_MIN, oldest + CLOCK_MARGIN_MS)',
    },
    finds: /was accepted, and is nowhere/,
  },
  {
    name: 'drops the second event of an id that the queue has forgotten',
    change: { file: 'lib/ingest/warehouse.ts', from: "? 'duplicate' : 'reused'", to: "? 'duplicate' : 'duplicate'" },
    finds: /was accepted, and is nowhere/,
  },
  {
    name: 'accepts what the queue did not answer in time',
    change: CHANGES['accepts what the queue did not answer in time'],
    finds: NOWHERE,
  },
  {
    name: 'sets a time limit for the first call alone',
    change: {
      file: 'lib/redis/accept/calls.ts',
      from: 'this.#arm(Math.min(leftMs, this.#timeoutMs));',
      to: '',
    },
    finds: /ms late/,
  },
  {
    name: "calls another producer's id a duplicate",
    change: {
      file: 'lib/redis/stream/lua/accept.lua',
      from: "if sub(value, 1, DIGEST) ~= sub(digests, 1, DIGEST) then refused[at] = '2'",
      to: "if false then refused[at] = '2'",
    },
    finds: NOWHERE,
  },
  {
    name: 'does not give back what it admitted',
    change: {
      file: 'lib/gateway/exchange.ts',
      from: 'if (this.admitted !== undefined) this.#context.admission.release(this.admitted);',
      to: '',
    },
    finds: /in flight|that are answered/,
  },
  {
    name: 'looks in the queue when the warehouse is unavailable',
    change: {
      file: 'lib/gateway/find-event.ts',
      from: "return known?.kind === 'unavailable' ? UNAVAILABLE : undefined;",
      to: 'return undefined;',
    },
    finds: /a look-up says (404|accepted)/,
  },
  {
    name: 'knows no event while the queue is unavailable',
    change: {
      file: 'lib/gateway/find-event.ts',
      from: "if (queued.kind === 'unavailable') return UNAVAILABLE;",
      to: '',
    },
    finds: /a look-up says 404/,
  },
];

/** Returns the output of the simulation, and the seed that found a violation if there was one. */
export async function foundBy({
  change,
}: BrokenBuild): Promise<{ readonly seed: string | undefined; readonly said: string }> {
  const folder = brokenBuild(change);
  for (const part of ['test/simulation', 'test/support', 'test/campaign'])
    cpSync(join(PRODUCT, part), join(folder, part), { recursive: true });
  const said = await new Promise<string>((resolve) => {
    const args = ['--disable-warning=ExperimentalWarning', join(folder, 'test/simulation/simulate.ts')];
    const env = { ...process.env, SIM_SEEDS: String(SEEDS), SIM_FROM: '1' };
    execFile(process.execPath, args, { env }, (_, out, errors) => resolve(out + errors));
  });
  return { seed: /^seed (\d+): /m.exec(said)?.[1], said };
}
