// bench/figures.json holds every published figure with the run that measured it. Pages and pictures are compared with
// it by test/bench/figures.test.ts.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './bench-environment.ts';
import type { Machine } from './machine.ts';
import type { CaseSummary } from './summary.ts';

export interface Figure {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

export interface Measurement extends Machine {
  readonly command: string;
  readonly rounds: number;
  /** Of the picture that shows these figures. */
  readonly sha256?: string;
  /** By label and metric (metrics.ts). A ratio has the label `one / other`. */
  readonly figures: Readonly<Record<string, Figure>>;
}

/** By name of the case. */
export type Measurements = Readonly<Record<string, Measurement>>;

const PATH = join(ROOT, 'bench/figures.json');

export const readMeasurements = (): Measurements => JSON.parse(readFileSync(PATH, 'utf8')) as Measurements;

/** Replaces the figures of one case. */
export function record(name: string, { figures, ...run }: Measurement): void {
  const all = { ...readMeasurements(), [name]: { ...run, figures } };
  const text = JSON.stringify(all, null, 2);
  // One line for each figure.
  writeFileSync(PATH, `${text.replaceAll(/\{\s+("median": \S+)\s+(\S+ \S+)\s+(\S+ \S+)\s+\}/g, '{ $1 $2 $3 }')}\n`);
}

/** Returns why the figures of a case are not published, or the figures. */
export function figuresOf({ labels, comparisons }: CaseSummary): string | Measurement['figures'] {
  const incomplete = labels.find(({ figures, voids }) => voids.length > 0 || Object.keys(figures).length === 0);
  if (incomplete !== undefined) return `${incomplete.label} has void rounds`;
  const rounded = (value: number): number => Number(value.toPrecision(4));
  const figure = ({ median, low, high }: Figure): Figure => ({
    ...{ median: rounded(median), low: rounded(low), high: rounded(high) },
  });
  return Object.fromEntries([
    ...labels.flatMap(({ label, figures }) =>
      Object.entries(figures).map(([metric, value]) => [`${label} ${metric}`, figure(value)] as const),
    ),
    ...comparisons.flatMap(({ of, against, metric, figure: value }) =>
      against === undefined ? [] : [[`${of} / ${against} ${metric}`, figure(value)] as const],
    ),
  ]);
}
