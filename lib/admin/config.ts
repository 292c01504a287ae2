// The configuration of ingest-admin: the same keys as the other programs.
import { Settings, type EnvReport, type Environment } from '../process/env.ts';
import { checkQueueUris } from '../process/queue-uri.ts';

export interface AdminConfig {
  /** The queues: one, both behind a dispatcher, or old and new while a queue moves. */
  readonly queueUris: readonly string[];
  /** Of a queue on a Redis Cluster. */
  readonly queuePartitions: number;
  readonly warehouseUri: string;
}

/** The configuration, or undefined when the report holds problems. */
export function readAdminConfig(environment: Environment): {
  readonly config: AdminConfig | undefined;
  readonly report: EnvReport;
} {
  const settings = new Settings(environment, 'admin');
  const queueUri = settings.get('INGEST_QUEUE_URI');
  const queueUris = (queueUri ?? '').split(' ');
  if (queueUris.some((uri) => /^dispatchers?:/.test(uri)))
    settings.problem(
      'INGEST_QUEUE_URI',
      'expected the queues themselves, as the consumers have them, separated by blanks: ' +
        'a dispatcher is not looked through',
      queueUri,
    );
  checkQueueUris(settings, { INGEST_QUEUE_URI: queueUris });
  const warehouseUri = settings.get('INGEST_WAREHOUSE_URI');
  if (!settings.given('INGEST_WAREHOUSE_URI') && !settings.given('INGEST_WAREHOUSE_URI', '_FILE'))
    settings.problem('INGEST_WAREHOUSE_URI', 'is required by this command');
  const report = settings.report();
  const complete = report.problems.length === 0 && queueUri !== undefined && warehouseUri !== undefined;
  if (!complete) return { config: undefined, report };
  const queuePartitions = settings.get('INGEST_QUEUE_PARTITIONS');
  return { config: Object.freeze({ queueUris, queuePartitions, warehouseUri }), report };
}
