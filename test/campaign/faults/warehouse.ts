import type { Fault } from './fault.ts';

export const killWarehouse: Fault = {
  name: 'PostgreSQL killed',
  weight: 4,
  touches: 'warehouse',
  needsServer: true,
  holdMs: [0, 400],
  begin: async ({ options: { warehouse } }) => {
    await warehouse.server?.kill();
    return () => warehouse.server?.start();
  },
};

export const freezeWarehouse: Fault = {
  name: 'PostgreSQL frozen',
  weight: 3,
  touches: 'warehouse',
  needsServer: true,
  holdMs: [50, 1_500],
  begin: ({ options: { warehouse } }) => {
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
};

export const lockWarehouse: Fault = {
  name: 'warehouse locked',
  weight: 4,
  touches: 'warehouse',
  holdMs: [100, 1_500],
  begin: ({ fresh }) => fresh.lock(),
};

export const lockWarehouseLong: Fault = {
  name: 'warehouse locked for long',
  weight: 1,
  touches: 'warehouse',
  holdMs: [5_000, 8_000],
  begin: ({ fresh }) => fresh.lock(),
};
