// Runs rounds of faults under load, and compares the warehouse with the promise. Every 50 rounds make a stretch with
// a new queue and a new warehouse, which limits the memory and the time that the comparison needs. A stretch starts
// without faults and ends when all events have landed. The first violation ends the campaign.
import { compare, type Violation } from './comparison.ts';
import { report } from './findings.ts';
import { History } from './history.ts';
import type { Plan } from './plan.ts';
import { Random } from './random.ts';
import { Rounds } from './rounds.ts';
import type { WarehouseKind } from './settings.ts';
import { Volume } from './volume.ts';
import { openWarehouse, type CampaignWarehouse } from './warehouse.ts';
import { World } from './world.ts';

const ROUNDS_IN_STRETCH = 50;
const ROUNDS_IN_LINE = 10;
const CALM_EVENTS = 600;
const DAY_AGO_S = -25 * 3_600;
const SETTLE_TIMEOUT_MS = 120_000;
export const PRODUCT = new URL('../..', import.meta.url).pathname;

export interface CampaignOptions {
  readonly kind: WarehouseKind;
  readonly rounds: number;
  readonly seed: number;
  readonly plan: (random: Random) => Plan;
  readonly say: (line: string) => void;
  readonly product?: string | undefined;
  readonly logsUnder?: string;
  readonly calmEvents?: number;
  readonly settleTimeoutMs?: number | undefined;
  /** The queue clock's offset from the real time. By default, every second stretch starts 25 hours in the past. */
  readonly clockS?: number;
}

export interface Outcome {
  readonly accepted: number;
  /** Events per second without faults, as the median of the stretches. */
  readonly calmRate: number;
  readonly faults: ReadonlyMap<string, number>;
  readonly violations: string | undefined;
}

export async function runCampaign(options: CampaignOptions): Promise<Outcome> {
  const random = new Random(options.seed);
  const plan = options.plan(random);
  const history = new History();
  const volume = new Volume();
  const warehouse = await openWarehouse(options.kind, volume);
  const rates: number[] = [];
  const faults = new Map<string, number>();
  let accepted = 0;
  let violations: string | undefined;
  try {
    for (let from = 0; from < options.rounds && violations === undefined; from += ROUNDS_IN_STRETCH) {
      const to = Math.min(from + ROUNDS_IN_STRETCH, options.rounds);
      const stretch = await runStretch({ options, random, plan, history, volume, warehouse, from, to });
      accepted += stretch.accepted;
      rates.push(stretch.rate);
      for (const [name, count] of stretch.faults) faults.set(name, (faults.get(name) ?? 0) + count);
      violations = stretch.violations;
    }
  } finally {
    await warehouse.stop();
    volume.close();
  }
  const calmRate = rates.sort((one, other) => one - other)[rates.length >> 1] ?? Number.NaN;
  return { accepted, calmRate, faults, violations };
}

interface Stretch {
  readonly options: CampaignOptions;
  readonly random: Random;
  readonly plan: Plan;
  readonly history: History;
  readonly volume: Volume;
  readonly warehouse: CampaignWarehouse;
  readonly from: number;
  readonly to: number;
}

interface StretchOutcome {
  readonly accepted: number;
  readonly rate: number;
  readonly faults: ReadonlyMap<string, number>;
  readonly violations: string | undefined;
}

async function runStretch(stretch: Stretch): Promise<StretchOutcome> {
  const { options, random, plan, history, volume, warehouse, from, to } = stretch;
  const { product = PRODUCT, calmEvents = CALM_EVENTS, settleTimeoutMs = SETTLE_TIMEOUT_MS } = options;
  const first = from * 100_000;
  // If the clock starts in the past, setting it ahead makes all entries older than the retention.
  const clockS = options.clockS ?? ((from / ROUNDS_IN_STRETCH) % 2 === 0 ? 0 : DAY_AGO_S);
  const world = await World.start({ warehouse, warehouseVolume: volume, history, random, product, first, clockS });
  const rounds = new Rounds(world, random);
  try {
    const calmMs = performance.now();
    await world.accepts(calmEvents);
    const rate = (calmEvents / (performance.now() - calmMs)) * 1000;
    const found: Violation[] = [];
    const wrong = (what: string): void => void found.push({ what, number: undefined });
    try {
      for (let round = from; round < to; round += 1) {
        await rounds.run(plan(round));
        if ((round + 1) % ROUNDS_IN_LINE === 0) say(options, round + 1, world.ledger.accepted);
      }
    } catch (cause) {
      wrong(`the rounds ended early: ${String(cause)}`);
    }
    await rounds.end();
    if (!(await world.settled(settleTimeoutMs))) wrong('not everything has landed in time');
    for (const name of rounds.unmet()) wrong(`no call has met this: ${name}`);
    for (const crash of world.services.flatMap(({ crashes }) => crashes)) wrong(crash);
    for (const answer of world.ledger.undocumented) wrong(`an answer: ${answer}`);
    found.push(...(await compare(world.ledger, world.fresh.store)));
    await Promise.all(world.services.map((service) => service.stop()));
    const violations = found.length === 0 ? undefined : await report(found, world, options.logsUnder);
    return { accepted: world.ledger.accepted, rate, faults: rounds.counts, violations };
  } finally {
    await rounds.end();
    await world.stop();
  }
}

function say({ say, kind, rounds }: CampaignOptions, done: number, accepted: number): void {
  say(`campaign on ${kind}: ${done} of ${rounds} rounds, ${accepted} events accepted in this stretch`);
}
