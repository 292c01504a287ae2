// The input and output of a load generator, as JSON.

export interface LoadOptions {
  readonly port: number;
  readonly caPath: string;
  readonly certPath: string;
  readonly keyPath: string;
  readonly connections: number;
  readonly durationMs: number;
  readonly warmupMs: number;
  readonly bodyBytes: number;
  /** Open loop only, over all connections. */
  readonly ratePerS?: number;
  /** New connections only. */
  readonly resume?: boolean;
}

export interface LoadResult {
  /** By status, in the measured part. `0` counts broken connections at any time. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Open loop: requests due in the measured part. */
  readonly offered: number;
  readonly unretryable: number;
  readonly elapsedMs: number;
  /** Milliseconds; percentiles of the measured part, without answers 5xx. */
  readonly latency: { readonly p50: number; readonly p99: number };
  /** Percentile and milliseconds. */
  readonly curve: readonly (readonly [number, number])[];
  /** For readers of the figures, for example a rate that was not reached. */
  readonly notes: readonly string[];
}
