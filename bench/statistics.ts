// Medians, spreads and ratios of few samples from a noisy machine.
//
// Samples are paired by round, because neighboring runs have similar disturbances, and the ratio of each round is taken
// before the median. The interval of a median lies between order statistics (an inverted sign test), so it assumes no
// distribution. With 5 or fewer samples it is the whole range, which contains the median with 94 % at 5 samples and 75
// % at 3.

export interface Spread {
  readonly median: number;
  /** The median's interval. */
  readonly low: number;
  readonly high: number;
  readonly count: number;
}

/** `too noisy`: the interval is too wide. `no difference`: it is narrow and contains 1. */
export type RatioVerdict = 'lower' | 'higher' | 'no difference' | 'too noisy';

/** As a share of the median, on either side. */
export const NOISE_MAX = 0.15;

const CONFIDENCE = 0.9;

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

export function spread(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b);
  const skipped = outsideInterval(sorted.length);
  return {
    median: median(sorted),
    low: sorted[skipped] ?? Number.NaN,
    high: sorted[sorted.length - 1 - skipped] ?? Number.NaN,
    count: sorted.length,
  };
}

/** The number of samples outside the interval at each end. */
function outsideInterval(count: number): number {
  let skipped = 0;
  let tail = 0.5 ** count; // P(no more than `skipped` of `count` samples below the true median)
  let term = tail;
  while (skipped < (count - 1) / 2) {
    term *= (count - skipped) / (skipped + 1);
    if (1 - 2 * (tail + term) < CONFIDENCE) break;
    tail += term;
    skipped += 1;
  }
  return skipped;
}

/** Skips rounds without a sample of both. */
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

/** `±7 %`, or nothing for a single sample or a median of 0. */
export function noiseText(figure: Spread): string {
  const share = Math.round(noise(figure) * 100);
  return figure.count < 2 || !Number.isFinite(share) ? '' : `±${share} %`;
}

export function ratioVerdict(ratio: Spread): RatioVerdict {
  if (ratio.count === 0 || !(noise(ratio) <= NOISE_MAX)) return 'too noisy';
  if (ratio.low > 1) return 'higher';
  return ratio.high < 1 ? 'lower' : 'no difference';
}

/** A run that sent less of the planned rate does not test its case. */
export const OFFERED_MIN = 0.95;

export interface Limit {
  readonly atMost?: number;
  readonly atLeast?: number;
}

/** By the median; `unclear` if the interval is wide and contains the limit. */
export function limitVerdict(figure: Spread, limit: Limit): 'reached' | 'missed' | 'unclear' {
  const { atMost = Number.POSITIVE_INFINITY, atLeast = Number.NEGATIVE_INFINITY } = limit;
  const holds = (value: number): boolean => value <= atMost && value >= atLeast;
  if (figure.count === 0) return 'unclear';
  const straddles = holds(figure.low) !== holds(figure.high);
  if (straddles && noise(figure) > NOISE_MAX) return 'unclear';
  return holds(figure.median) ? 'reached' : 'missed';
}
