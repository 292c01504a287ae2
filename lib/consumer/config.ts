// The consumer's configuration, made of its settings (lib/process/settings.ts): read once, every problem in one report.
import { Settings, type Environment } from '../process/env.ts';
import { queueUrisOf } from '../process/queue-uri.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export type ConsumerConfig = NonNullable<ReturnType<typeof readConsumerConfig>['config']>;

/** The configuration, or undefined when the report holds problems. Times are in milliseconds. */
export function readConsumerConfig(environment: Environment) {
  const settings = new Settings(environment, 'consumer');
  const queueUris = queueUrisOf(settings, 'separated by blanks: consumers do not read through a dispatcher');
  const warehouseUri = settings.get('INGEST_WAREHOUSE_URI') ?? '';
  const warehousePartitions = settings.get('INGEST_WAREHOUSE_PARTITIONS');
  if (warehousePartitions !== 'none' && warehouseUri.startsWith('sqlite:'))
    settings.problem('INGEST_WAREHOUSE_PARTITIONS', 'expected none: SQLite has no partitions', warehousePartitions);
  const days = (count: number | undefined): number | undefined => count && count * DAY_MS;
  return settings.read({
    /** One queue or several, separated by blanks. */
    queueUri: queueUris.join(' '),
    /** Of each queue on a Redis Cluster. */
    queuePartitions: settings.get('INGEST_QUEUE_PARTITIONS'),
    warehouseUri,
    /** Of the events in it. */
    warehousePartitions,
    /** Where `/health/*` and `/metrics` are served, plain HTTP. */
    address: settings.get('INGEST_CONSUMER_ADDR'),
    /** Batch size: entries of one read at most. In a backlog one transaction holds up to eight times as many. */
    batchMax: settings.get('INGEST_CONSUMER_BATCH_MAX'),
    replicasMax: settings.get('INGEST_CONSUMER_REPLICAS_MAX'),
    /** How long the queue keeps what has not landed. */
    unlandedMs: settings.get('INGEST_QUEUE_UNLANDED_HOURS_MAX') * HOUR_MS,
    /** How long rows of the warehouse are kept; undefined: for ever. */
    retentionMs: {
      events: days(settings.get('INGEST_WAREHOUSE_RETENTION_DAYS')),
      quarantine: days(settings.get('INGEST_QUARANTINE_RETENTION_DAYS')),
    },
    /** How long a stop may take. */
    drainTimeoutMs: settings.get('INGEST_DRAIN_TIMEOUT_MS'),
    exportsSpans: settings.exportsSpans,
    /** The folder of the schemas of event types. */
    schemasDir: settings.get('INGEST_SCHEMAS_DIR'),
  });
}
