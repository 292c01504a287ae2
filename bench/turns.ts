// Servers that take turns under load, in slices of time, and the ratios of pairs of them.
//
// Fact: on a shared machine a core's speed changes within a second; in runs of three seconds, one after the other, an
// event of the same floor took 42 to 85 µs, and the ratios of such runs were 0.69 to 1.22. Choice: the load turns from
// one server of a pair to the other each SLICE_MS; a ratio is of two slices that are neighbours, and a round's is their
// median. Effect: rounds of the same hour are within a few percent of each other.
import type { Figures, Sample } from './measure.ts';
import type { MetricName } from './metrics.ts';
import { median, ratios } from './statistics.ts';

const SLICE_MS = 50;

export interface Slice {
  /** Accepted; in a slice every event is. */
  readonly events: number;
  readonly figures: Figures;
}

/** What can be put under load for a slice of time, and is idle otherwise. */
export interface Sliced {
  /** Names its samples. */
  readonly label: string;
  slice(ms: number): Promise<Slice>;
}

/** Two whose slices are neighbours. One may be in several pairs. */
export interface Pair<T> {
  readonly of: T;
  readonly against: T;
}

/** What a pair's slices were: those at the same place were neighbours. */
export interface PairSlices {
  readonly labels: Pair<string>;
  readonly slices: Pair<readonly Slice[]>;
}

/** Slices of each one in turn, `seconds` for each. */
export async function warmUp(sides: readonly Sliced[], seconds: number): Promise<void> {
  for (let turn = 0; turn < turnsIn(seconds); turn += 1) for (const side of sides) await side.slice(SLICE_MS);
}

/** Slices of each pair in turn, `seconds` for each side of a pair; which side comes first changes each turn. */
export async function takeTurns(pairs: readonly Pair<Sliced>[], seconds: number): Promise<readonly PairSlices[]> {
  const taken = pairs.map((pair) => ({ pair, of: [] as Slice[], against: [] as Slice[] }));
  for (let turn = 0; turn < turnsIn(seconds); turn += 1) {
    for (const { pair, ...slices } of taken)
      for (const side of turn % 2 === 0 ? (['of', 'against'] as const) : (['against', 'of'] as const))
        slices[side].push(await pair[side].slice(SLICE_MS));
  }
  return taken.map(({ pair: { of, against }, ...slices }) => ({
    labels: { of: of.label, against: against.label },
    slices,
  }));
}

const turnsIn = (seconds: number): number => Math.ceil((seconds * 1000) / SLICE_MS);

/** The median of what one side's `metric` is to the other side's, slice by slice. */
export function neighbourRatio({ slices }: PairSlices, metric: MetricName): number {
  return median(ratios(figuresOf(slices.of, metric), figuresOf(slices.against, metric)));
}

/** A sample for each label: medians over all its slices, and its ratios to what it was paired with. */
export function pairSamples(pairs: readonly PairSlices[], foreignShare: number): readonly Sample[] {
  const slices = new Map<string, Slice[]>();
  const ratiosOf = new Map<string, Record<string, Figures>>();
  for (const pair of pairs) {
    for (const side of ['of', 'against'] as const)
      slices.set(pair.labels[side], [...(slices.get(pair.labels[side]) ?? []), ...pair.slices[side]]);
    const shared = metricsOf(pair.slices.of).filter((metric) => metricsOf(pair.slices.against).includes(metric));
    const measured = Object.fromEntries(shared.map((metric) => [metric, neighbourRatio(pair, metric)]));
    ratiosOf.set(pair.labels.of, { ...ratiosOf.get(pair.labels.of), [pair.labels.against]: measured });
  }
  return [...slices].map(([label, all]) => ({
    label,
    figures: {
      ...Object.fromEntries(metricsOf(all).map((metric) => [metric, median(figuresOf(all, metric))])),
      foreignShare,
    },
    ratios: ratiosOf.get(label) ?? {},
    statuses: { 202: all.reduce((sum, { events }) => sum + events, 0) },
    curve: [],
    notes: [],
  }));
}

const metricsOf = (slices: readonly Slice[]): readonly MetricName[] =>
  Object.keys(slices[0]?.figures ?? {}) as MetricName[];

const figuresOf = (slices: readonly Slice[], metric: MetricName): number[] =>
  slices.map(({ figures }) => figures[metric] ?? Number.NaN);
