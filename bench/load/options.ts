// The input and output of a load generator, as JSON.

export interface ClientFiles {
  readonly caPath: string;
  readonly certPath: string;
  readonly keyPath: string;
}

export interface LoadOptions extends ClientFiles {
  readonly port: number;
  readonly connections: number;
  readonly durationMs: number;
  readonly warmupMs: number;
  readonly bodyBytes: number;
  /** Requests per second over all connections. Set only for open loops. */
  readonly ratePerS?: number;
}

export interface LoadResult {
  /** Answers in the measured part, counted by status. `0` counts connections that broke at any time. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Requests that an open loop offered in the measured part; 0 for a closed loop. */
  readonly offered: number;
  readonly elapsedMs: number;
  /** Percentiles of the measured part in milliseconds, without 5xx answers. */
  readonly latency: { readonly p50: number; readonly p99: number; readonly max: number };
}
