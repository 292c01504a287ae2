// The configuration of ingest-admin, from its settings (lib/process/settings.ts).
import { Settings, type Environment } from '../process/env.ts';
import { queueUriOf } from '../process/queue-uri.ts';

/** `config` is `undefined` if the report has problems. */
export function readAdminConfig(environment: Environment) {
  const settings = new Settings(environment, 'admin');
  const queueUri = queueUriOf(settings);
  if (!settings.given('INGEST_WAREHOUSE_URI') && !settings.given('INGEST_WAREHOUSE_URI', '_FILE'))
    settings.problem('INGEST_WAREHOUSE_URI', 'is required by ingest-admin');
  const warehouseUri = settings.get('INGEST_WAREHOUSE_URI') ?? '';
  const queuePartitions = settings.get('INGEST_QUEUE_PARTITIONS');
  const stateDir = settings.get('INGEST_STATE_DIR');
  const report = settings.report();
  const config = Object.freeze({ queueUri, queuePartitions, warehouseUri, stateDir });
  return { config: report.problems.length === 0 ? config : undefined, report };
}
