// Runs many seeds, and repeats some of them.
import { planOf, simulate, type Outcome, type Parts, type Plan } from './simulation.ts';

export interface Runs {
  readonly from: number;
  readonly seeds: number;
  /** One in this many seeds runs twice, and its two traces are compared. */
  readonly repeatedOneIn: number;
  /** Milliseconds after which no new seed starts. */
  readonly forMs?: number;
}

export async function runSeeds(
  parts: Parts,
  { from, seeds, repeatedOneIn, forMs = Number.POSITIVE_INFINITY }: Runs,
): Promise<{ readonly seeds: number; readonly accepted: number; readonly finding: string | undefined }> {
  const begunMs = performance.now();
  let accepted = 0;
  let seed = from;
  for (; seed < from + seeds && performance.now() - begunMs < forMs; seed += 1) {
    const plan = planOf(seed);
    const outcome = await simulate(parts, plan);
    accepted += outcome.accepted;
    const found = outcome.violation ?? (seed % repeatedOneIn === 0 ? await differs(parts, plan, outcome) : undefined);
    if (found !== undefined) return { seeds: seed - from + 1, accepted, finding: told(plan, found) };
  }
  return { seeds: seed - from, accepted, finding: undefined };
}

async function differs(parts: Parts, plan: Plan, { trace }: Outcome): Promise<string | undefined> {
  const again = (await simulate(parts, plan)).trace;
  const at = Array.from({ length: Math.max(trace.length, again.length) }).findIndex((_, at) => trace[at] !== again[at]);
  return at === -1 ? undefined : `two runs differ in step ${at}: ${trace[at]}, and ${again[at]}`;
}

const told = ({ seed, faults }: Plan, violation: string): string =>
  [
    `seed ${seed}: ${violation}`,
    ...faults.map(({ kind, atMs, forMs }) => `  at ${atMs} ms, for ${forMs} ms: ${kind}`),
    `again: make simulate SIM_FROM=${seed} SIM_SEEDS=1`,
  ].join('\n');
