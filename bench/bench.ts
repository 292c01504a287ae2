// The state shared by all cases of a run.
import { BenchEnvironment } from './bench-environment.ts';
import { beside, type SidePlan } from './beside.ts';
import { measure, type Duration, type Plan, type JointRun, type Run } from './measure.ts';
import { median } from './statistics.ts';
import { GATEWAY, limit, nginx, type Subject } from './subjects.ts';
import { pairSamples, type Pair } from './turns.ts';

export class Bench {
  readonly environment: BenchEnvironment;
  readonly duration: Duration;
  readonly nginx: Subject | undefined;
  readonly limit: Subject | undefined;
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

  /** A run that puts several servers under load in alternating slices of time. */
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

  /** Returns the gateway's saturation rate. Measures it first if the saturation case did not run. */
  async saturation(): Promise<number> {
    if (this.#saturations.length === 0) {
      const { figures } = await this.run({ label: 'gateway', subject: GATEWAY }).execute();
      this.noteSaturation(figures['ratePerS'] ?? 1000);
    }
    return median(this.#saturations);
  }
}
