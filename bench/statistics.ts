// Medians, spreads and ratios of a few samples from a noisy machine.
//
// Samples are paired by round, because neighboring runs are disturbed in similar ways, and each round's ratio is
// computed before the median. The interval is the whole range, which contains the true median with a probability of
// 94 % for five samples and 75 % for three.

export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
  readonly count: number;
}

/** The maximum half-width of a narrow interval, as a share of the median. */
export const NOISE_MAX = 0.15;

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

export function spread(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b);
  return {
    median: median(sorted),
    low: sorted[0] ?? Number.NaN,
    high: sorted.at(-1) ?? Number.NaN,
    count: sorted.length,
  };
}

/** Skips rounds in which either sample is missing. */
export function ratios(of: readonly (number | undefined)[], against: readonly (number | undefined)[]): number[] {
  const found: number[] = [];
  for (let round = 0; round < Math.min(of.length, against.length); round += 1) {
    const [upper, lower] = [of[round], against[round]];
    if (upper !== undefined && lower !== undefined && lower > 0) found.push(upper / lower);
  }
  return found;
}

export function noise({ median: middle, low, high }: Spread): number {
  return (high - low) / 2 / middle;
}

/** A run that sent less than this share of the planned rate does not test its goal. */
export const OFFERED_MIN = 0.95;

export interface Limit {
  readonly atMost?: number;
  readonly atLeast?: number;
}

/** Judges by the median. Returns `unclear` if the interval is wide and contains the limit. */
export function limitVerdict(figure: Spread, limit: Limit): 'reached' | 'missed' | 'unclear' {
  const { atMost = Number.POSITIVE_INFINITY, atLeast = Number.NEGATIVE_INFINITY } = limit;
  const holds = (value: number): boolean => value <= atMost && value >= atLeast;
  if (figure.count === 0) return 'unclear';
  const straddles = holds(figure.low) !== holds(figure.high);
  if (straddles && noise(figure) > NOISE_MAX) return 'unclear';
  return holds(figure.median) ? 'reached' : 'missed';
}
