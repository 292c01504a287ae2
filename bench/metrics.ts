interface Metric {
  readonly title: string;
  readonly unit: string;
  readonly digits: number;
  /** The column of the tables, if it has one. */
  readonly heading?: string;
}

/** In the order of the columns. */
export const METRICS = {
  ratePerS: { title: 'accepted', unit: '/s', digits: 0, heading: 'events/s' },
  p50Ms: { title: 'p50', unit: 'ms', digits: 2, heading: 'p50 ms' },
  p99Ms: { title: 'p99', unit: 'ms', digits: 2, heading: 'p99 ms' },
  serverUs: { title: 'server CPU', unit: 'µs', digits: 1, heading: 'server µs' },
  redisUs: { title: 'Redis CPU', unit: 'µs', digits: 1, heading: 'Redis µs' },
  youngCollections: { title: 'collections of young objects', unit: '/min', digits: 0, heading: 'young GC/min' },
  fullCollections: { title: 'full collections', unit: '/min', digits: 0, heading: 'full GC/min' },
  totalUs: { title: 'all CPU', unit: 'µs', digits: 1, heading: 'sum µs' },
  heapBytes: { title: 'JavaScript heap allocated', unit: 'B', digits: 0, heading: 'heap B' },
  consumersUs: { title: 'CPU of the consumers', unit: 'µs', digits: 1, heading: 'consumers µs' },
  warehouseUs: { title: 'CPU of PostgreSQL', unit: 'µs', digits: 1, heading: 'PostgreSQL µs' },
  restShare: { title: 'all CPU but the gateway, to the gateway', unit: '×', digits: 2, heading: 'to gateway' },
  residentGrowth: { title: 'resident memory, end to begin', unit: '×', digits: 2 },
  answeredShare: { title: 'answered of what was due', unit: '', digits: 2 },
  refusedShare: { title: 'refused with 503', unit: '', digits: 2 },
  offeredShare: { title: 'offered of the planned rate', unit: '', digits: 2 },
  bytesEach: { title: 'memory for each', unit: 'B', digits: 0, heading: 'bytes each' },
  diskBytesEach: { title: 'disk for each', unit: 'B', digits: 0, heading: 'disk each' },
  logBytes: { title: 'log per million', unit: 'B', digits: 0, heading: 'log per million' },
  foreignShare: { title: 'CPU used by others', unit: '', digits: 2, heading: 'others' },
} as const satisfies Record<string, Metric>;

export type MetricName = keyof typeof METRICS;

export function written(name: MetricName, value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return '–';
  const { digits } = METRICS[name];
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
