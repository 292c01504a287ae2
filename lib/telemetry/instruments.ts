// Counters and histograms whose hot side is one addition, and which prom-client reads when it is scraped.
//
// Fact: prom-client's own `inc` and `observe` with labels build a string key and look it up at each call. Choice: the
// caller keeps the cell of its labels, a plain object with a number, and adds to that. All cells are read in
// one synchronous pass, so a scrape is one moment: sums over several metrics hold in it.
import type { Registry } from 'prom-client';

export interface Cell {
  value: number;
}

type Labels = Readonly<Record<string, string | number>>;

interface Sample {
  readonly labels: Labels;
  readonly value: number;
  readonly metricName?: string;
}

/** What a registry asks of a metric. */
interface Exposed {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  get(): Promise<{ name: string; help: string; type: string; values: Sample[]; aggregator: string }>;
}

function expose(registry: Registry, name: string, help: string, type: string, samples: () => Sample[]): void {
  const metric: Exposed = {
    name,
    help,
    type,
    get: () => Promise.resolve({ name, help, type, values: samples(), aggregator: 'sum' }),
  };
  registry.registerMetric(metric as never);
}

/** A counter: it only grows. */
export class CounterFamily {
  readonly #cells = new Map<string, { readonly labels: Labels; readonly cell: Cell }>();

  constructor(registry: Registry, name: string, help: string) {
    expose(registry, name, help, 'counter', () =>
      [...this.#cells.values()].map(({ labels, cell }) => ({ labels, value: cell.value })),
    );
  }

  /** The cell of these labels, made at its first use with 0. Keep it where it is added to often. */
  cell(labels: Labels = {}): Cell {
    const key = JSON.stringify(labels);
    const known = this.#cells.get(key);
    if (known !== undefined) return known.cell;
    const cell = { value: 0 };
    this.#cells.set(key, { labels, cell });
    return cell;
  }

  total(): number {
    let sum = 0;
    for (const { cell } of this.#cells.values()) sum += cell.value;
    return sum;
  }
}

/** A gauge that is asked for its samples when it is scraped. */
export function gauge(registry: Registry, name: string, help: string, samples: () => Sample[]): void {
  expose(registry, name, help, 'gauge', samples);
}

/** One distribution, in seconds. */
export class Distribution {
  readonly #bounds: readonly number[];
  readonly #counts: Float64Array;
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number, times = 1): void {
    let at = 0;
    while (at < this.#bounds.length && value > (this.#bounds[at] ?? 0)) at += 1;
    this.#counts[at] = (this.#counts[at] ?? 0) + times;
    this.#sum += value * times;
  }

  samples(name: string, labels: Labels): Sample[] {
    const samples: Sample[] = [];
    let below = 0;
    for (let at = 0; at <= this.#bounds.length; at += 1) {
      below += this.#counts[at] ?? 0;
      samples.push({ metricName: `${name}_bucket`, labels: { le: this.#bounds[at] ?? '+Inf', ...labels }, value: below });
    }
    samples.push({ metricName: `${name}_sum`, labels, value: this.#sum });
    samples.push({ metricName: `${name}_count`, labels, value: below });
    return samples;
  }
}

export class HistogramFamily {
  readonly #bounds: readonly number[];
  readonly #distributions = new Map<string, { readonly labels: Labels; readonly distribution: Distribution }>();

  constructor(registry: Registry, name: string, help: string, bounds: readonly number[]) {
    this.#bounds = bounds;
    expose(registry, name, help, 'histogram', () =>
      [...this.#distributions.values()].flatMap(({ labels, distribution }) => distribution.samples(name, labels)),
    );
  }

  distribution(labels: Labels = {}): Distribution {
    const key = JSON.stringify(labels);
    const known = this.#distributions.get(key);
    if (known !== undefined) return known.distribution;
    const distribution = new Distribution(this.#bounds);
    this.#distributions.set(key, { labels, distribution });
    return distribution;
  }
}
