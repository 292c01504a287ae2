// The consumer's configuration, made of its settings (lib/process/settings.ts): read once, every problem in one report.
import { Settings, type Environment } from '../process/env.ts';
import { queueUriOf } from '../process/queue-uri.ts';

export type ConsumerConfig = NonNullable<ReturnType<typeof readConsumerConfig>['config']>;

/** The configuration, or undefined when the report holds problems. Times are in milliseconds. */
export function readConsumerConfig(environment: Environment) {
  const settings = new Settings(environment, 'consumer');
  return settings.read({
    queueUri: queueUriOf(settings),
    /** Of a queue on a Redis Cluster. */
    queuePartitions: settings.get('INGEST_QUEUE_PARTITIONS'),
    warehouseUri: settings.get('INGEST_WAREHOUSE_URI') ?? '',
    /** Where `/health/*` and `/metrics` are served, plain HTTP. */
    address: settings.get('INGEST_CONSUMER_ADDR'),
    /** Batch size: entries of one read at most. In a backlog one transaction holds up to eight times as many. */
    batchMax: settings.get('INGEST_CONSUMER_BATCH_MAX'),
    replicasMax: settings.get('INGEST_CONSUMER_REPLICAS_MAX'),
    /** How long a stop may take. */
    drainTimeoutMs: settings.get('INGEST_DRAIN_TIMEOUT_MS'),
    exportsSpans: settings.exportsSpans,
    /** The folder of the schemas of event types. */
    schemasDir: settings.get('INGEST_SCHEMAS_DIR'),
  });
}
