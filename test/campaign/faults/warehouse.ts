import { fault, serverFault } from './fault.ts';

export const killWarehouse = serverFault(
  'PostgreSQL killed',
  'warehouse',
  4,
  [0, 400],
  async ({ options: { warehouse } }) => {
    await warehouse.server?.kill();
    return () => warehouse.server?.start();
  },
);

export const freezeWarehouse = serverFault(
  'PostgreSQL frozen',
  'warehouse',
  3,
  [50, 1_500],
  ({ options: { warehouse } }) => {
    const frozen = warehouse.server?.processes() ?? [];
    const signal = (name: NodeJS.Signals): void => {
      for (const pid of frozen) {
        try {
          process.kill(pid, name);
        } catch {
          // The process has exited.
        }
      }
    };
    signal('SIGSTOP');
    return () => signal('SIGCONT');
  },
);

export const lockWarehouse = fault('warehouse locked', 'warehouse', 4, [100, 1_500], ({ fresh }) => fresh.lock());

export const lockWarehouseLong = fault('warehouse locked for long', 'warehouse', 1, [5_000, 8_000], ({ fresh }) =>
  fresh.lock(),
);
