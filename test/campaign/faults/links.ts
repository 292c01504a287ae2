// Links that are cut, and links that carry 5 MB a second.
import type { Fault } from './fault.ts';

const SLOW_BYTES_A_SECOND = 5_000_000;

export const cutQueue: Fault = {
  name: 'link to Redis cut',
  weight: 6,
  touches: 'queue',
  holdMs: [0, 500],
  begin: ({ queue: { link } }) => {
    link.cut();
    return () => link.mend();
  },
};

export const slowQueue: Fault = {
  name: 'link to Redis slow',
  weight: 3,
  touches: 'queue',
  holdMs: [200, 2_000],
  begin: ({ queue: { link } }) => {
    link.slow(SLOW_BYTES_A_SECOND);
    return () => link.slow(undefined);
  },
};

export const cutWarehouse: Fault = {
  name: 'link to the warehouse cut',
  weight: 5,
  touches: 'warehouse',
  needsServer: true,
  holdMs: [0, 500],
  begin: ({ options: { warehouse } }) => {
    warehouse.server?.link.cut();
    return () => warehouse.server?.link.mend();
  },
};

export const slowWarehouse: Fault = {
  name: 'link to the warehouse slow',
  weight: 3,
  touches: 'warehouse',
  needsServer: true,
  holdMs: [200, 2_000],
  begin: ({ options: { warehouse } }) => {
    warehouse.server?.link.slow(SLOW_BYTES_A_SECOND);
    return () => warehouse.server?.link.slow(undefined);
  },
};
