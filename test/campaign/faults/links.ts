// Network faults: links that are cut in one direction or both, slow links (5 MB/s), and names that do not resolve.
import type { Link } from '../../support/link.ts';
import { fault, serverFault, type Fault, type Mend } from './fault.ts';

const SLOW_BYTES_A_SECOND = 5_000_000;

/** Holds back the bytes sent in one direction. They arrive after the fault, or never if `isLost` is true. */
function held(link: Link | undefined, direction: Parameters<Link['hold']>[0], isLost: boolean): Mend {
  link?.hold(direction);
  return () => {
    if (isLost) link?.cut();
    link?.mend();
  };
}

export const commandsHeld = fault(
  'link to Redis cut one way: no commands',
  'queue',
  2,
  [200, 3_000],
  ({ queue: { link } }, random) => held(link, 'to the server', random.chance(0.5)),
);

export const answersHeld = fault(
  'link to Redis cut one way: no answers',
  'queue',
  2,
  [200, 3_000],
  ({ queue: { link } }, random) => held(link, 'from the server', random.chance(0.5)),
);

export const warehouseAnswersHeld = serverFault(
  'link to the warehouse cut one way: no answers',
  'warehouse',
  2,
  [200, 3_000],
  ({ options: { warehouse } }, random) => held(warehouse.server?.link, 'from the server', random.chance(0.5)),
);

export const cutQueue = fault('link to Redis cut', 'queue', 6, [0, 500], ({ queue: { link } }) => {
  link.cut();
  return () => link.mend();
});

/** Open connections to the queue and the warehouse are cut, so every program must resolve the names again. */
export const namesUnknown: Fault = {
  ...fault('names do not resolve', 'queue', 3, [200, 3_000], ({ names, queue, options: { warehouse } }) => {
    names.begin();
    for (const link of [queue.link, warehouse.server?.link]) {
      link?.cut();
      link?.mend();
    }
    return () => names.end();
  }),
  met: ({ names }) => names.met,
};

export const slowQueue = fault('link to Redis slow', 'queue', 3, [200, 2_000], ({ queue: { link } }) => {
  link.slow(SLOW_BYTES_A_SECOND);
  return () => link.slow(undefined);
});

export const cutWarehouse = serverFault(
  'link to the warehouse cut',
  'warehouse',
  5,
  [0, 500],
  ({ options: { warehouse } }) => {
    warehouse.server?.link.cut();
    return () => warehouse.server?.link.mend();
  },
);

export const slowWarehouse = serverFault(
  'link to the warehouse slow',
  'warehouse',
  3,
  [200, 2_000],
  ({ options: { warehouse } }) => {
    warehouse.server?.link.slow(SLOW_BYTES_A_SECOND);
    return () => warehouse.server?.link.slow(undefined);
  },
);
