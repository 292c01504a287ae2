import type { Fault } from './faults/fault.ts';
import type { Random } from './random.ts';

export type Plan = (round: number) => readonly Fault[];

const TWO_FAULTS = 0.3;

export function planAtRandom(faults: readonly Fault[], random: Random): Plan {
  return () => {
    const first = weighted(faults, random);
    if (!random.chance(TWO_FAULTS)) return [first];
    return [
      first,
      weighted(
        faults.filter(({ touches }) => touches !== first.touches),
        random,
      ),
    ];
  };
}

export const planned =
  (...rounds: readonly (readonly Fault[])[]): Plan =>
  (round) =>
    rounds[round] ?? [];

function weighted(faults: readonly Fault[], random: Random): Fault {
  let left = random.fraction() * faults.reduce((sum, { weight }) => sum + weight, 0);
  for (const fault of faults) {
    left -= fault.weight;
    if (left < 0) return fault;
  }
  return random.pick(faults);
}
