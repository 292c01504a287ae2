// What all cases of one benchmark run share.
import { BenchEnvironment } from './bench-environment.ts';
import { beside, type SidePlan } from './beside.ts';
import { measure, type Duration, type Plan, type JointRun, type Run } from './measure.ts';
import { median } from './statistics.ts';
import { GATEWAY, limit, nginx, type Subject } from './subjects.ts';
import { pairSamples, type Pair } from './turns.ts';

export class Bench {
  readonly environment: BenchEnvironment;
  readonly duration: Duration;
  /** nginx with Lua, where there is one. */
  readonly nginx: Subject | undefined;
  /** The server in C, where it can be compiled. */
  readonly limit: Subject | undefined;
  /** Accepted events a second at saturation, once measured. */
  #saturations: number[] = [];

  private constructor(environment: BenchEnvironment, duration: Duration) {
    this.environment = environment;
    this.duration = duration;
    this.nginx = nginx();
    this.limit = limit(environment);
  }

  static async create(duration: Duration): Promise<Bench> {
    return new Bench(await BenchEnvironment.create(), duration);
  }

  run(plan: Plan): Run {
    return { label: plan.label, execute: () => measure(this.environment, plan, this.duration) };
  }

  /** Servers beside each other, saturated in turns. */
  beside(plans: readonly SidePlan[], pairs: readonly Pair<string>[]): JointRun {
    return {
      labels: plans.map(({ label }) => label),
      execute: async () => {
        const measured = await beside(this.environment, plans, pairs, this.duration);
        return pairSamples(measured.pairs, measured.foreignShare);
      },
    };
  }

  noteSaturation(ratePerS: number): void {
    this.#saturations.push(ratePerS);
  }

  /** The rate that shares of saturation are taken of. Measured in one run when the saturation case was not chosen. */
  async saturation(): Promise<number> {
    if (this.#saturations.length === 0) {
      const { figures } = await this.run({ label: 'gateway', subject: GATEWAY }).execute();
      this.noteSaturation(figures['ratePerS'] ?? 1000);
    }
    return median(this.#saturations);
  }
}
