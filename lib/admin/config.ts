// The configuration of ingest-admin, from its settings (lib/process/settings.ts).
import { Settings, type Environment } from '../process/read-settings.ts';
import { SETTINGS } from '../process/settings.ts';
import { queueUriOf } from '../process/queue-uri.ts';

const KEYS = { queue: 'INGEST_QUEUE_URI', warehouse: 'INGEST_WAREHOUSE_URI' } as const;
export type Side = keyof typeof KEYS;

/** The sides that a command uses. `either`: the command shows those that are configured, of which there is one. */
export interface Uses {
  readonly sides: readonly Side[];
  readonly either?: boolean;
}

export const BOTH_SIDES: Uses = { sides: ['queue', 'warehouse'] };

/** `config` is `undefined` if the report has problems. A URI is '' if the command does not use it. */
export function readAdminConfig(environment: Environment, { sides, either = false }: Uses = BOTH_SIDES) {
  const namesOf = (side: Side): readonly string[] => [KEYS[side], `${KEYS[side]}_FILE`];
  const isSet = (side: Side): boolean => namesOf(side).some((name) => (environment[name] ?? '') !== '');
  const ignored = BOTH_SIDES.sides.filter((side) => !sides.includes(side)).flatMap(namesOf);
  const used = Object.entries(environment).filter(([name]) => !ignored.includes(name));
  const settings = new Settings(Object.fromEntries(used), 'admin');
  if (!either || !sides.some(isSet))
    for (const side of sides) if (!isSet(side)) settings.missing(KEYS[side], SETTINGS[KEYS[side]].schemes);
  return settings.read({
    queueUri: queueUriOf(settings),
    serverCa: settings.get('INGEST_TLS_SERVER_CA'),
    queuePartitions: settings.get('INGEST_QUEUE_PARTITIONS'),
    queueReplicas: settings.given('INGEST_QUEUE_REPLICAS') ? settings.get('INGEST_QUEUE_REPLICAS') : undefined,
    warehouseUri: settings.get('INGEST_WAREHOUSE_URI') ?? '',
  });
}
