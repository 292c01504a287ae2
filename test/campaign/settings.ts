export type WarehouseKind = 'sqlite' | 'postgres';

const number = (name: string, fallback: number): number => {
  const value = Number(process.env[name] ?? fallback);
  if (!Number.isSafeInteger(value) || value < 0) throw new Error(`${name}: expected a whole number`);
  return value;
};

/** Undefined: a few rounds, beside the other tests. */
export const ROUNDS = process.env['CAMPAIGN_ROUNDS'] === undefined ? undefined : number('CAMPAIGN_ROUNDS', 0);

/** The seed repeats faults and events, but not the timing of the machine. */
export const SEED = number('CAMPAIGN_SEED', Math.trunc(Math.random() * 2 ** 31));

/** Two queues (RFC 014). Faults hit the first. */
export const DISPATCHER = process.env['CAMPAIGN_DISPATCHER'] === '1';

export const WAREHOUSES: readonly WarehouseKind[] = warehouses(process.env['CAMPAIGN_WAREHOUSE']);

function warehouses(asked: string | undefined): readonly WarehouseKind[] {
  if (asked === 'sqlite' || asked === 'postgres') return [asked];
  if (asked === undefined || asked === '') return ['sqlite', 'postgres'];
  throw new Error('CAMPAIGN_WAREHOUSE: expected sqlite or postgres');
}
