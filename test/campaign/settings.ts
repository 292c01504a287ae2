export type WarehouseKind = 'sqlite' | 'postgres';

const number = (name: string, fallback: number): number => {
  const value = Number(process.env[name] ?? fallback);
  if (!Number.isSafeInteger(value) || value < 0) throw new Error(`${name}: expected a whole number`);
  return value;
};

/** The number of rounds. `undefined` means a few rounds, because other tests run at the same time. */
export const ROUNDS = process.env['CAMPAIGN_ROUNDS'] === undefined ? undefined : number('CAMPAIGN_ROUNDS', 0);

/** A seed repeats faults and events, but not the timing of the machine. */
export const SEED = number('CAMPAIGN_SEED', Math.trunc(Math.random() * 2 ** 31));

export const WAREHOUSES: readonly WarehouseKind[] = warehouses(process.env['CAMPAIGN_WAREHOUSE']);

function warehouses(asked: string | undefined): readonly WarehouseKind[] {
  if (asked === 'sqlite' || asked === 'postgres') return [asked];
  if (asked === undefined || asked === '') return ['sqlite', 'postgres'];
  throw new Error('CAMPAIGN_WAREHOUSE: expected sqlite or postgres');
}
