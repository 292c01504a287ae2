// The configuration of ingest-admin: the same keys as the other programs.
import { Settings, type EnvReport, type Environment } from '../process/env.ts';

export interface AdminConfig {
  readonly queueUri: string;
  /** Undefined only for a command that needs none. */
  readonly warehouseUri: string | undefined;
}

/** The configuration, or undefined when the report holds problems. */
export function readAdminConfig(
  environment: Environment,
  needsWarehouse: boolean,
): {
  readonly config: AdminConfig | undefined;
  readonly report: EnvReport;
} {
  const settings = new Settings(environment, 'admin');
  const queueUri = settings.get('INGEST_QUEUE_URI');
  // Anything else would be read as the one stream of the first server named, and an event that is elsewhere would be left as it is.
  if (queueUri !== undefined && !/^rediss?:/.test(queueUri))
    settings.problem(
      'INGEST_QUEUE_URI',
      'expected redis:// or rediss://, one server: a dispatcher, a Redis Cluster and Sentinel are not looked through',
      queueUri,
    );
  const warehouseUri = settings.get('INGEST_WAREHOUSE_URI');
  if (needsWarehouse && !settings.given('INGEST_WAREHOUSE_URI') && !settings.given('INGEST_WAREHOUSE_URI', '_FILE'))
    settings.problem('INGEST_WAREHOUSE_URI', 'is required by this command');
  const report = settings.report();
  const complete = report.problems.length === 0 && queueUri !== undefined;
  return { config: complete ? Object.freeze({ queueUri, warehouseUri }) : undefined, report };
}
