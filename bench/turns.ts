// Puts servers under load in turn, in short slices of time, and computes the ratios of pairs of servers.
//
// Fact: on a shared machine, the speed of a core changes within a second. In runs of three seconds, one after the
// other, the CPU time per event of the same floor varied from 42 to 85 µs, and the ratios of such runs varied from
// 0.69 to 1.22. Choice: the load alternates between the servers of a pair every SLICE_MS, and the ratio of a round is
// the median of the ratios of neighboring slices. Effect: rounds within one hour agree within a few percent.
import type { Figures, Sample } from './measure.ts';
import type { MetricName } from './metrics.ts';
import { median, ratios } from './statistics.ts';

const SLICE_MS = 50;

export interface Slice {
  /** Accepted events. A slice with any other answer rejects. */
  readonly events: number;
  readonly figures: Figures;
}

/** One side of a comparison. It is idle except during a slice. */
export interface Sliced {
  readonly label: string;
  slice(ms: number): Promise<Slice>;
}

/** The same side may belong to several pairs. */
export interface Pair<T> {
  readonly of: T;
  readonly against: T;
}

/** Slices with the same index ran directly one after the other. */
export interface PairSlices {
  readonly labels: Pair<string>;
  readonly slices: Pair<readonly Slice[]>;
}

/** Puts each side under load for a total of `seconds`, in alternating slices. */
export async function warmUp(sides: readonly Sliced[], seconds: number): Promise<void> {
  for (let turn = 0; turn < turnsIn(seconds); turn += 1) for (const side of sides) await side.slice(SLICE_MS);
}

/** Puts each side of each pair under load for a total of `seconds`. The side that goes first alternates. */
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

export function neighbourRatio({ slices }: PairSlices, metric: MetricName): number {
  return median(ratios(figuresOf(slices.of, metric), figuresOf(slices.against, metric)));
}

/** Returns one sample per label: the medians over all its slices, and its ratios to the labels it was paired with. */
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
  }));
}

const metricsOf = (slices: readonly Slice[]): readonly MetricName[] =>
  Object.keys(slices[0]?.figures ?? {}) as MetricName[];

const figuresOf = (slices: readonly Slice[], metric: MetricName): number[] =>
  slices.map(({ figures }) => figures[metric] ?? Number.NaN);
