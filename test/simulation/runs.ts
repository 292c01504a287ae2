// Runs many seeds, repeats some of them, and shrinks the first failure.
import { planOf, simulate, type Outcome, type Parts, type Plan } from './simulation.ts';

const SHRINKING_RUNS = 60;

export interface Runs {
  readonly from: number;
  readonly seeds: number;
  /** One in this many seeds runs twice, and its two traces are compared. */
  readonly repeatedOneIn: number;
  /** Milliseconds after which no new seed starts. */
  readonly forMs?: number;
}

export interface Finding {
  readonly seed: number;
  /** The violation, with the smallest set of faults and requests that was found to cause it. */
  readonly text: string;
}

export async function runSeeds(
  parts: Parts,
  { from, seeds, repeatedOneIn, forMs = Number.POSITIVE_INFINITY }: Runs,
): Promise<{ readonly seeds: number; readonly accepted: number; readonly finding: Finding | undefined }> {
  const begunMs = performance.now();
  let accepted = 0;
  let seed = from;
  for (; seed < from + seeds && performance.now() - begunMs < forMs; seed += 1) {
    const plan = planOf(seed);
    const outcome = await simulate(parts, plan);
    accepted += outcome.accepted;
    const text =
      outcome.violation === undefined
        ? seed % repeatedOneIn === 0
          ? await differs(parts, plan, outcome)
          : undefined
        : told(await shrunk(parts, plan, outcome.violation));
    if (text !== undefined) return { seeds: seed - from + 1, accepted, finding: { seed, text } };
  }
  return { seeds: seed - from, accepted, finding: undefined };
}

async function differs(parts: Parts, plan: Plan, { trace }: Outcome): Promise<string | undefined> {
  const again = (await simulate(parts, plan)).trace;
  const at = Array.from({ length: Math.max(trace.length, again.length) }).findIndex((_, at) => trace[at] !== again[at]);
  return at === -1 ? undefined : `two runs differ in step ${at}: ${trace[at]}, and ${again[at]}`;
}

interface Shrunk {
  readonly plan: Plan;
  readonly violation: string;
}

async function shrunk(parts: Parts, plan: Plan, violation: string): Promise<Shrunk> {
  let least: Shrunk = { plan, violation };
  let left = SHRINKING_RUNS;
  const tries = async (smaller: Plan): Promise<boolean> => {
    left -= 1;
    const found = left < 0 ? undefined : (await simulate(parts, smaller)).violation;
    if (found !== undefined) least = { plan: smaller, violation: found };
    return found !== undefined;
  };
  for (const fault of plan.faults)
    await tries({ ...least.plan, faults: least.plan.faults.filter((one) => one !== fault) });
  for (let part = 2; left > 0 && part <= least.plan.sends.length; part *= 2) {
    for (let at = part - 1; at >= 0; at -= 1) {
      const { sends } = least.plan;
      const size = Math.ceil(sends.length / part);
      await tries({ ...least.plan, sends: sends.filter((_, of) => Math.floor(of / size) !== at) });
    }
  }
  return least;
}

function told({ plan: { seed, faults, sends }, violation }: Shrunk): string {
  const list = faults.map(({ kind, atMs, forMs }) => `  at ${atMs} ms, for ${forMs} ms: ${kind}`);
  return [
    `seed ${seed}: ${violation}`,
    `with ${sends.length} requests and ${faults.length === 0 ? 'no faults' : 'these faults:'}`,
    ...list,
    `again: make simulate SIM_FROM=${seed} SIM_SEEDS=1`,
  ].join('\n');
}
