// Summarizes the samples of a case as medians, spreads and comparisons.
import type { BenchCase, Comparison } from './bench-case.ts';
import { FOREIGN_SHARE_ROUND_MAX } from './gate-verdict.ts';
import type { Sample } from './measure.ts';
import type { MetricName } from './metrics.ts';
import { limitVerdict, OFFERED_MIN, ratios, spread, type Spread } from './statistics.ts';

/** Up to this share of CPU time used by other processes, a latency is valid. */
const FOREIGN_SHARE_MAX = 0.2;

export interface CaseSamples {
  readonly benchCase: BenchCase;
  readonly samples: ReadonlyMap<string, readonly Sample[]>;
}

export interface LabelSummary {
  readonly label: string;
  readonly figures: Readonly<Partial<Record<MetricName, Spread>>>;
  readonly rounds: number;
  readonly voids: readonly string[];
}

export interface ComparisonSummary extends Comparison {
  readonly figure: Spread;
  readonly verdict: 'reached' | 'missed' | 'unclear' | 'not tested' | undefined;
  readonly untested: string | undefined;
}

export interface CaseSummary {
  readonly name: string;
  readonly aim: string;
  readonly labels: readonly LabelSummary[];
  readonly comparisons: readonly ComparisonSummary[];
}

export function summarize({ benchCase, samples }: CaseSamples): CaseSummary {
  return {
    name: benchCase.name,
    aim: benchCase.aim,
    labels: [...samples].map(([label, rounds]) => labelSummary(label, rounds)),
    comparisons: benchCase.comparisons.flatMap((comparison) => comparisonSummary(comparison, samples) ?? []),
  };
}

function labelSummary(label: string, rounds: readonly Sample[]): LabelSummary {
  const good = rounds.filter((sample) => sample.void === undefined);
  const names = new Set(good.flatMap(({ figures }) => Object.keys(figures)));
  const figures = Object.fromEntries(
    [...names].map((name) => [name, spread(good.flatMap((sample) => sample.figures[name] ?? []))]),
  );
  return { label, figures, rounds: rounds.length, voids: rounds.flatMap((sample) => sample.void ?? []) };
}

function comparisonSummary(comparison: Comparison, samples: CaseSamples['samples']): ComparisonSummary | undefined {
  const figuresOf = (label: string): (number | undefined)[] | undefined =>
    samples.get(label)?.map((sample) => (sample.void === undefined ? sample.figures[comparison.metric] : undefined));
  const of = figuresOf(comparison.of);
  const against = comparison.against === undefined ? undefined : figuresOf(comparison.against);
  // A label without samples belongs to a peer that was left out.
  if (of === undefined || (comparison.against !== undefined && against === undefined)) return undefined;
  const taken = ratiosTaken(comparison, samples);
  const figure = spread(
    against === undefined ? of.filter((value) => value !== undefined) : taken.length > 0 ? taken : ratios(of, against),
  );
  const untested = comparison.limit === undefined ? undefined : whyUntested(comparison, samples);
  return {
    ...comparison,
    figure,
    untested,
    verdict:
      comparison.limit === undefined
        ? undefined
        : untested === undefined
          ? limitVerdict(figure, comparison.limit)
          : 'not tested',
  };
}

const ratiosTaken = ({ of, against = '', metric }: Comparison, samples: CaseSamples['samples']): readonly number[] =>
  (samples.get(of) ?? []).flatMap((sample) => sample.ratios?.[against]?.[metric] ?? []);

/** Metrics that any other process distorts. */
const OF_TIME: readonly MetricName[] = ['p50Ms', 'p99Ms', 'ratePerS', 'answeredShare', 'refusedShare'];
/** Metrics that other processes distort only on a heavily loaded machine, through the CPU caches. */
const OF_CPU: readonly MetricName[] = ['serverUs', 'redisUs', 'totalUs'];

/**
 * Returns why a goal was not tested: less than the planned load was sent, or other processes used too much CPU time.
 * Returns `undefined` if the goal was tested.
 */
function whyUntested({ metric, of, against }: Comparison, samples: CaseSamples['samples']): string | undefined {
  const sides = against === undefined ? [of] : [of, against];
  const median = (name: MetricName): readonly number[] =>
    sides.map((label) => {
      const good = (samples.get(label) ?? []).filter((sample) => sample.void === undefined);
      return spread(good.flatMap((sample) => sample.figures[name] ?? [])).median;
    });
  const offered = Math.min(...median('offeredShare').filter((share) => !Number.isNaN(share)));
  if (offered < OFFERED_MIN) return `only ${Math.round(offered * 100)} % of the planned rate was offered`;
  const foreign = Math.max(...median('foreignShare').filter((share) => !Number.isNaN(share)));
  const quiet = OF_TIME.includes(metric) ? FOREIGN_SHARE_MAX : OF_CPU.includes(metric) ? FOREIGN_SHARE_ROUND_MAX : 1;
  return foreign > quiet ? `other processes took ${Math.round(foreign * 100)} % of the CPU` : undefined;
}
