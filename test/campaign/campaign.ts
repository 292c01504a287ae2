// Runs rounds of faults under load, and compares the warehouse with the promise. Every 50 rounds make a stretch with
// a new queue and a new warehouse, which limits the memory and the time that the comparison needs. A stretch starts
// without faults and ends when all events have landed. The first violation ends the campaign.
import { setTimeout as delay } from 'node:timers/promises';
import { PRODUCT } from './broken-build.ts';
import { compare, type Violation } from './comparison.ts';
import { FAULTS, faultNamed, type FaultName, type Mend, type NamedFault } from './faults.ts';
import { report } from './findings.ts';
import { History } from './ledger.ts';
import { Random } from './random.ts';
import type { WarehouseKind } from './settings.ts';
import { Volume } from './volume.ts';
import { openWarehouse } from './warehouse.ts';
import { startWorld, type World } from './world.ts';

const ROUNDS_IN_STRETCH = 50;
const ROUNDS_IN_LINE = 10;
const EVENTS_A_ROUND = 50;
const TWO_FAULTS = 0.3;
/** A fault that has run this often must have caused at least one call to fail. */
const MET_AFTER = 3;
const CALM_EVENTS = 600;
const DAY_AGO_S = -25 * 3_600;
const SETTLE_TIMEOUT_MS = 120_000;

/** Returns the faults of a round. */
export type Plan = (round: number, random: Random) => readonly NamedFault[];

export interface CampaignOptions {
  readonly kind: WarehouseKind;
  readonly rounds: number;
  readonly seed: number;
  /** By default, the faults are drawn from the seed. */
  readonly plan?: Plan;
  readonly say: (line: string) => void;
  readonly product?: string;
  readonly logsUnder?: string;
  readonly calmEvents?: number;
  readonly settleTimeoutMs?: number;
  /** The queue clock's offset from the real time. By default, every second stretch starts 25 hours in the past. */
  readonly clockS?: number;
}

interface Outcome {
  readonly accepted: number;
  /** Events per second without faults, as the median of the stretches. */
  readonly calmRate: number;
  readonly counts: ReadonlyMap<string, number>;
  readonly violations: string | undefined;
}

type StretchOutcome = Omit<Outcome, 'calmRate'> & { readonly rate: number };

export async function runCampaign(options: CampaignOptions): Promise<Outcome> {
  const { kind, rounds, product = PRODUCT, clockS } = options;
  const random = new Random(options.seed);
  const volume = new Volume();
  const common = { random, volume, product, history: new History(), warehouse: await openWarehouse(kind, volume) };
  const stretches: StretchOutcome[] = [];
  try {
    for (let from = 0; from < rounds && stretches.at(-1)?.violations === undefined; from += ROUNDS_IN_STRETCH) {
      // If the clock starts in the past, setting it ahead makes all entries older than the retention.
      const startS = clockS ?? (stretches.length % 2 === 0 ? 0 : DAY_AGO_S);
      const world = await startWorld({ ...common, first: from * 100_000, clockS: startS });
      stretches.push(await new Stretch(options, world).run(from, Math.min(from + ROUNDS_IN_STRETCH, rounds)));
    }
  } finally {
    await common.warehouse.stop();
    volume.close();
  }
  const counts = new Map<string, number>();
  for (const [name, count] of stretches.flatMap((stretch) => [...stretch.counts]))
    counts.set(name, (counts.get(name) ?? 0) + count);
  const rates = stretches.map(({ rate }) => rate).sort((one, other) => one - other);
  return {
    accepted: stretches.reduce((sum, { accepted }) => sum + accepted, 0),
    calmRate: rates[rates.length >> 1] ?? Number.NaN,
    ...{ counts, violations: stretches.at(-1)?.violations },
  };
}

interface Broken {
  readonly name: string;
  readonly mend: Mend;
  readonly untilMs: number;
}

class Stretch {
  readonly #options: CampaignOptions;
  readonly #world: World;
  readonly #counts = new Map<string, number>();
  readonly #counted = new Set<NamedFault>();
  #lingering: Broken[] = [];

  constructor(options: CampaignOptions, world: World) {
    this.#options = options;
    this.#world = world;
  }

  async run(from: number, to: number): Promise<StretchOutcome> {
    const { kind, rounds, say, plan = drawn(kind), calmEvents = CALM_EVENTS, settleTimeoutMs } = this.#options;
    const world = this.#world;
    const { ledger } = world;
    try {
      const calmMs = performance.now();
      await world.accepts(calmEvents);
      const rate = (calmEvents / (performance.now() - calmMs)) * 1000;
      const wrong: string[] = [];
      try {
        for (let round = from; round < to; round += 1) {
          await this.#round(plan(round, world.random));
          if ((round + 1) % ROUNDS_IN_LINE === 0)
            say(
              `campaign on ${kind}: ${round + 1} of ${rounds} rounds, ${ledger.accepted} events accepted in this stretch`,
            );
        }
      } catch (cause) {
        wrong.push(`the rounds ended early: ${String(cause)}`);
      }
      await this.#mend(this.#lingering.splice(0));
      if (!(await world.settled(settleTimeoutMs ?? SETTLE_TIMEOUT_MS))) wrong.push('not everything has landed in time');
      wrong.push(...this.#unmet(), ...world.services.flatMap(({ crashes }) => crashes));
      wrong.push(...ledger.undocumented.map((answer) => `an answer: ${answer}`));
      const found: Violation[] = wrong.map((what) => ({ what, number: undefined }));
      found.push(...(await compare(ledger, world.fresh.store)));
      await Promise.all(world.services.map((service) => service.stop()));
      const violations = found.length === 0 ? undefined : report(found, world, this.#options.logsUnder);
      return { accepted: ledger.accepted, rate, counts: this.#counts, violations };
    } finally {
      await this.#mend(this.#lingering.splice(0));
      await world.stop();
    }
  }

  /** Starts faults, holds them and ends them. Then events must be accepted again. */
  async #round(faults: readonly NamedFault[]): Promise<void> {
    const world = this.#world;
    const broken: Broken[] = [];
    try {
      for (const fault of faults) {
        const { name, lingers = false } = fault;
        if (lingers && this.#lingering.length > 0) continue;
        world.history.note(`${name}: begins`);
        this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
        if (fault.met !== undefined) this.#counted.add(fault);
        const holdMs = world.random.between(...fault.holdMs);
        const mend = (await fault.begin(world, world.random)) ?? (() => undefined);
        (lingers ? this.#lingering : broken).push({ name, mend, untilMs: performance.now() + holdMs });
        if (!lingers) await delay(holdMs);
      }
    } finally {
      await this.#mend(broken);
    }
    const now = performance.now();
    const { over = [], lasting = [] } = Object.groupBy(this.#lingering, ({ untilMs }) =>
      untilMs <= now ? 'over' : 'lasting',
    );
    this.#lingering = lasting;
    await this.#mend(over);
    await world.accepts(EVENTS_A_ROUND);
    // The server may exit some time after its disk works again.
    await world.warehouse.server?.start();
  }

  #unmet(): string[] {
    return [...this.#counted].flatMap(({ name, met }) => {
      const calls = met?.(this.#world) ?? 0;
      const times = this.#counts.get(name) ?? 0;
      this.#counts.set(`calls that failed (${name})`, calls);
      return calls === 0 && times >= MET_AFTER ? [`no call has met this: ${name}`] : [];
    });
  }

  async #mend(broken: readonly Broken[]): Promise<void> {
    for (const { name, mend } of broken) {
      await mend();
      this.#world.history.note(`${name}: mended`);
    }
  }
}

function drawn(kind: WarehouseKind): Plan {
  const faults = Object.keys(FAULTS)
    .map((name) => faultNamed(name as FaultName))
    .filter(({ needsServer = false }) => !needsServer || kind === 'postgres');
  return (_, random) => {
    const first = weighted(faults, random);
    if (!random.chance(TWO_FAULTS)) return [first];
    const others = faults.filter(({ touches }) => touches !== first.touches);
    return [first, weighted(others, random)];
  };
}

function weighted(faults: readonly NamedFault[], random: Random): NamedFault {
  let left = random.fraction() * faults.reduce((sum, { weight }) => sum + weight, 0);
  return faults.find(({ weight }) => (left -= weight) < 0) ?? random.pick(faults);
}
