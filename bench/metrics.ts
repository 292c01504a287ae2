export interface Metric {
  readonly title: string;
  readonly unit: string;
  readonly digits: number;
}

export const METRICS = {
  ratePerS: { title: 'accepted', unit: '/s', digits: 0 },
  p50Ms: { title: 'p50', unit: 'ms', digits: 2 },
  p99Ms: { title: 'p99', unit: 'ms', digits: 2 },
  serverUs: { title: 'server CPU', unit: 'µs', digits: 1 },
  redisUs: { title: 'Redis CPU', unit: 'µs', digits: 1 },
  consumersUs: { title: 'CPU of the consumers', unit: 'µs', digits: 1 },
  warehouseUs: { title: 'CPU of PostgreSQL', unit: 'µs', digits: 1 },
  restShare: { title: 'CPU of Redis, consumers and PostgreSQL, to the gateway', unit: '×', digits: 2 },
  totalUs: { title: 'all CPU', unit: 'µs', digits: 1 },
  residentGrowth: { title: 'resident memory, end to begin', unit: '×', digits: 2 },
  foreignShare: { title: 'CPU used by others', unit: '', digits: 2 },
  answeredShare: { title: 'answered of what was due', unit: '', digits: 2 },
  refusedShare: { title: 'refused with 503', unit: '', digits: 2 },
  offeredShare: { title: 'offered of the planned rate', unit: '', digits: 2 },
  heapBytes: { title: 'JavaScript heap allocated', unit: 'B', digits: 0 },
  bytesEach: { title: 'memory for each', unit: 'B', digits: 0 },
  diskBytesEach: { title: 'disk for each', unit: 'B', digits: 0 },
  logBytes: { title: 'log per million', unit: 'B', digits: 0 },
} as const satisfies Record<string, Metric>;

export type MetricName = keyof typeof METRICS;

export function written(name: MetricName, value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return '–';
  const { digits } = METRICS[name];
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
