// Each round starts faults, holds them and ends them. Then events must be accepted again before the next round.
import { setTimeout as delay } from 'node:timers/promises';
import type { Fault, Mend } from './faults/fault.ts';
import type { Random } from './random.ts';
import type { World } from './world.ts';

const EVENTS_A_ROUND = 50;
/** A fault that has run this often must have caused at least one call to fail. */
const MET_AFTER = 3;

interface Broken {
  readonly name: string;
  readonly mend: Mend;
  readonly untilMs: number;
}

export class Rounds {
  readonly counts = new Map<string, number>();
  readonly #world: World;
  readonly #random: Random;
  readonly #counted = new Set<Fault>();
  #lingering: Broken[] = [];

  constructor(world: World, random: Random) {
    this.#world = world;
    this.#random = random;
  }

  async run(faults: readonly Fault[]): Promise<void> {
    const { history } = this.#world.options;
    const broken: Broken[] = [];
    try {
      for (const fault of faults) {
        if (fault.lingers === true && this.#lingering.length > 0) continue;
        history.note(`${fault.name}: begins`);
        this.counts.set(fault.name, (this.counts.get(fault.name) ?? 0) + 1);
        if (fault.met !== undefined) this.#counted.add(fault);
        const holdMs = this.#random.between(...fault.holdMs);
        const mend = await fault.begin(this.#world, this.#random);
        const one = { name: fault.name, mend, untilMs: performance.now() + holdMs };
        if (fault.lingers === true) this.#lingering.push(one);
        else broken.push(one);
        if (fault.lingers !== true) await delay(holdMs);
      }
    } finally {
      await this.#mend(broken);
    }
    const now = performance.now();
    await this.#mend(this.#lingering.filter(({ untilMs }) => untilMs <= now));
    this.#lingering = this.#lingering.filter(({ untilMs }) => untilMs > now);
    await this.#world.accepts(EVENTS_A_ROUND);
    await this.#world.warehouseRuns();
  }

  unmet(): readonly string[] {
    return [...this.#counted].flatMap(({ name, met }) => {
      const calls = met?.(this.#world) ?? 0;
      const times = this.counts.get(name) ?? 0;
      this.counts.set(`calls that failed (${name})`, calls);
      return calls === 0 && times >= MET_AFTER ? [name] : [];
    });
  }

  async end(): Promise<void> {
    await this.#mend(this.#lingering.splice(0));
  }

  async #mend(broken: readonly Broken[]): Promise<void> {
    for (const { name, mend } of broken) {
      await mend();
      this.#world.options.history.note(`${name}: mended`);
    }
  }
}
