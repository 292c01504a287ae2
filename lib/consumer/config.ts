// The consumer's configuration: read once, every default here, every problem in one report.
import { LOG_LEVELS, type LogLevel } from '../process/log.ts';
import { EnvReader, type BindAddress, type Environment, type EnvReport } from '../process/env.ts';

export interface ConsumerConfig {
  readonly queueUri: string;
  readonly warehouseUri: string;

  /** Where `/health/*` and `/metrics` are served, plain HTTP. */
  readonly address: BindAddress;
  readonly logLevel: LogLevel;

  /** Entries of one read at most, and a quarter of those that are taken in hand as one batch in a backlog. */
  readonly batchMax: number;
  readonly replicasMax: number;

  /** How long a stop may take, in milliseconds. */
  readonly drainTimeoutMs: number;
}

/** The configuration, or undefined when the report holds problems. */
export function readConsumerConfig(environment: Environment): {
  config: ConsumerConfig | undefined;
  report: EnvReport;
} {
  const env = new EnvReader(environment);
  const queueUri = env.uri('INGEST_QUEUE_URI', ['redis:', 'rediss:'], true);
  const warehouseUri = env.uri('INGEST_WAREHOUSE_URI', ['sqlite:', 'postgres:', 'postgresql:'], true);
  const rest = {
    address: env.address('INGEST_CONSUMER_ADDR', { host: '127.0.0.1', port: 9464 }),
    logLevel: env.oneOf('INGEST_LOG_LEVEL', 'info', LOG_LEVELS),
    batchMax: env.integer('INGEST_CONSUMER_BATCH_MAX', 500, 1, 10_000),
    replicasMax: env.integer('INGEST_CONSUMER_REPLICAS_MAX', 6, 1, 1_000),
    drainTimeoutMs: env.integer('INGEST_DRAIN_TIMEOUT_MS', 10_000, 1, 600_000),
  };
  const report = env.report();
  const complete = report.problems.length === 0 && queueUri !== undefined && warehouseUri !== undefined;
  return { config: complete ? Object.freeze({ queueUri, warehouseUri, ...rest }) : undefined, report };
}
