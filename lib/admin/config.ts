// The configuration of ingest-admin, from its settings (lib/process/settings.ts).
import { Settings, type Environment } from '../process/env.ts';
import { queueUriOf } from '../process/queue-uri.ts';

/** `config` is `undefined` if the report has problems. */
export function readAdminConfig(environment: Environment) {
  const settings = new Settings(environment, 'admin');
  const config = Object.freeze({
    queueUri: queueUriOf(settings),
    queuePartitions: settings.get('INGEST_QUEUE_PARTITIONS'),
    warehouseUri: settings.get('INGEST_WAREHOUSE_URI') ?? '',
    stateDir: settings.get('INGEST_STATE_DIR'),
  });
  const report = settings.report();
  return { config: report.problems.length === 0 ? config : undefined, report };
}
