// A campaign: rounds of faults under load, and the promise held against the warehouse.
//
// It goes in stretches, each on a queue and a warehouse that are new, so that memory and the time of the comparison
// have a bound. A stretch begins with calm, ends when everything has landed, and is compared then. The first violation
// ends the campaign.
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
/** Events accepted before the first fault, over which the rate is taken. */
const CALM_EVENTS = 600;
const DAY_AGO_S = -25 * 3_600;
const SETTLE_TIMEOUT_MS = 120_000;
/** The repository, which the programs are started from. */
export const PRODUCT = new URL('../..', import.meta.url).pathname;

export interface CampaignOptions {
  readonly kind: WarehouseKind;
  readonly rounds: number;
  readonly seed: number;
  readonly plan: (random: Random) => Plan;
  /** Takes lines for people. */
  readonly say: (line: string) => void;
  /** The folder that holds `bin` and `lib`. */
  readonly product?: string | undefined;
  /** The folder that the logs of a violation are kept in; the system's temporary one by default. */
  readonly logsUnder?: string;
  readonly calmEvents?: number;
  /** How long everything may take to land after the last round. */
  readonly settleTimeoutMs?: number | undefined;
  /**
   * Where the queue's clock stands, in seconds from the true time. By default every other stretch begins a day and an
   * hour ago.
   */
  readonly clockS?: number;
}

export interface Outcome {
  readonly accepted: number;
  /** Events accepted in a second while nothing was broken: the median over the stretches. */
  readonly calmRate: number;
  readonly faults: ReadonlyMap<string, number>;
  /** What is wrong, for people; undefined where the promise held. */
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
  /** The first round, and the one after the last. */
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
  // In such a stretch, a clock that is set ahead is right: all that was accepted is then older than the queue keeps it.
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
