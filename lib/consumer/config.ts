// The consumer's configuration, made of its settings (lib/process/settings.ts): read once, every problem in one report.
import { Settings, type BindAddress, type Environment, type ReadConfig } from '../process/env.ts';
import type { Pruning } from '../ingest/warehouse.ts';
import { checkQueueUris } from '../process/queue-uri.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export interface ConsumerConfig {
  /** One queue or several, separated by blanks. */
  readonly queueUri: string;
  /** Of each queue on a Redis Cluster. */
  readonly queuePartitions: number;
  readonly warehouseUri: string;
  /** Of the events in it. */
  readonly warehousePartitions: 'none' | 'month';

  /** Where `/health/*` and `/metrics` are served, plain HTTP. */
  readonly address: BindAddress;

  /** Batch size: entries of one read at most. In a backlog one transaction holds up to eight times as many. */
  readonly batchMax: number;
  readonly replicasMax: number;
  /** How long the queue keeps what has not landed, in milliseconds. */
  readonly unlandedMs: number;

  /** How long rows of the warehouse are kept, in milliseconds; undefined: for ever. */
  readonly retentionMs: Readonly<Record<Pruning['table'], number | undefined>>;

  /** How long a stop may take, in milliseconds. */
  readonly drainTimeoutMs: number;
  readonly exportsSpans: boolean;
  /** The folder of the schemas of event types. */
  readonly schemasDir: string | undefined;
}

/** The configuration, or undefined when the report holds problems. */
export function readConsumerConfig(environment: Environment): ReadConfig<ConsumerConfig> {
  const settings = new Settings(environment, 'consumer');
  const queueUri = settings.get('INGEST_QUEUE_URI');
  const queueUris = (queueUri ?? '').split(' ');
  if (queueUris.some((uri) => /^dispatchers?:/.test(uri))) {
    settings.problem(
      'INGEST_QUEUE_URI',
      'expected the queues themselves, separated by blanks: consumers do not read through a dispatcher',
      queueUri,
    );
  }
  const warehouseUri = settings.get('INGEST_WAREHOUSE_URI');
  const warehousePartitions = settings.get('INGEST_WAREHOUSE_PARTITIONS');
  if (warehousePartitions !== 'none' && warehouseUri?.startsWith('sqlite:') === true)
    settings.problem('INGEST_WAREHOUSE_PARTITIONS', 'expected none: SQLite has no partitions', warehousePartitions);
  checkQueueUris(settings, { INGEST_QUEUE_URI: queueUris });
  const days = (count: number | undefined): number | undefined => count && count * DAY_MS;
  const rest = {
    warehousePartitions,
    queuePartitions: settings.get('INGEST_QUEUE_PARTITIONS'),
    address: settings.get('INGEST_CONSUMER_ADDR'),
    batchMax: settings.get('INGEST_CONSUMER_BATCH_MAX'),
    replicasMax: settings.get('INGEST_CONSUMER_REPLICAS_MAX'),
    unlandedMs: settings.get('INGEST_QUEUE_UNLANDED_HOURS_MAX') * HOUR_MS,
    retentionMs: {
      events: days(settings.get('INGEST_WAREHOUSE_RETENTION_DAYS')),
      quarantine: days(settings.get('INGEST_QUARANTINE_RETENTION_DAYS')),
    },
    drainTimeoutMs: settings.get('INGEST_DRAIN_TIMEOUT_MS'),
    exportsSpans: settings.exportsSpans,
    schemasDir: settings.get('INGEST_SCHEMAS_DIR'),
  };
  const report = settings.report();
  const complete = report.problems.length === 0 && queueUri !== undefined && warehouseUri !== undefined;
  return {
    config: complete ? Object.freeze({ queueUri, warehouseUri, ...rest }) : undefined,
    report,
    log: settings.log,
  };
}
