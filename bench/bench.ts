// The state shared by all cases of a run.
import { BenchEnvironment } from './bench-environment.ts';
import { beside, type SidePlan } from './beside.ts';
import { measure, runOf, type Duration, type Plan, type Run } from './measure.ts';
import { GATEWAY, limit, nginx, type Subject } from './subjects.ts';
import { pairSamples, type Pair } from './turns.ts';

export class Bench {
  readonly environment: BenchEnvironment;
  readonly duration: Duration;
  readonly nginx: Subject | undefined;
  readonly limit: Subject | undefined;
  #saturation: Promise<number> | undefined;

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
    return runOf(plan.label, () => measure(this.environment, plan, this.duration));
  }

  /** A run that puts several servers under load in alternating slices of time. */
  beside(plans: readonly SidePlan[], pairs: readonly Pair<string>[]): Run {
    return {
      labels: plans.map(({ label }) => label),
      execute: async () => {
        const measured = await beside(this.environment, plans, pairs, this.duration);
        return pairSamples(measured.pairs, measured.foreignShare);
      },
    };
  }

  /** Returns the gateway's saturation rate, which is measured once. */
  saturation(): Promise<number> {
    const plan = { label: 'gateway', subject: GATEWAY };
    return (this.#saturation ??= measure(this.environment, plan, this.duration).then(
      ({ figures }) => figures['ratePerS'] ?? 1000,
    ));
  }
}
