// The consumer's configuration, from its settings (lib/process/settings.ts).
import { Settings, type Environment } from '../process/read-settings.ts';
import { queueUriOf } from '../process/queue-uri.ts';
import { exportsSpans } from '../telemetry/tracing.ts';

export type ConsumerConfig = NonNullable<ReturnType<typeof readConsumerConfig>['config']>;

export function readConsumerConfig(environment: Environment) {
  const settings = new Settings(environment, 'consumer');
  return settings.read({
    queueUri: queueUriOf(settings),
    serverCa: settings.get('INGEST_TLS_SERVER_CA'),
    queuePartitions: settings.get('INGEST_QUEUE_PARTITIONS'),
    warehouseUri: settings.get('INGEST_WAREHOUSE_URI') ?? '',
    address: settings.get('INGEST_CONSUMER_ADDR'),
    /** Maximum number of entries in one read. In a backlog, up to eight times as many land together. */
    batchMax: settings.get('INGEST_CONSUMER_BATCH_MAX'),
    replicasMax: settings.get('INGEST_CONSUMER_REPLICAS_MAX'),
    drainTimeoutMs: settings.get('INGEST_DRAIN_TIMEOUT_MS'),
    exportsSpans: exportsSpans(settings, environment),
    schemasDir: settings.get('INGEST_SCHEMAS_DIR'),
  });
}
