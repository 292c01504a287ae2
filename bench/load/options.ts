// What a load generator process is told, and what it tells back. Both travel as JSON.

/** Times in milliseconds. */
export interface LoadOptions {
  readonly port: number;
  readonly caPath: string;
  readonly certPath: string;
  readonly keyPath: string;
  readonly connections: number;
  readonly durationMs: number;
  /** Sent but not counted, before the measured part. */
  readonly warmupMs: number;
  readonly bodyBytes: number;
  /** Open loop only: requests a second over all connections. */
  readonly ratePerS?: number;
  /** New connections only: each one resumes the session of the one before. */
  readonly resume?: boolean;
}

export interface LoadResult {
  /** Answers in the measured part, by status; `0` counts connections that broke, at any time. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Open loop: requests that were due in the measured part. */
  readonly offered: number;
  /** Answers 503 whose body does not say `"retryable":true`. */
  readonly unretryable: number;
  /** Length of the measured part. */
  readonly elapsedMs: number;
  /** Milliseconds; percentiles of the measured part, without answers 5xx. */
  readonly latency: { readonly p50: number; readonly p99: number };
  /** For the curve: percentile and milliseconds. */
  readonly curve: readonly (readonly [number, number])[];
  /** What a reader of the figures must know: a rate that could not be offered, say. */
  readonly notes: readonly string[];
}
