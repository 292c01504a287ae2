// Network faults: links that are cut in one direction or both, slow links (5 MB/s), and names that do not resolve.
import type { Link } from '../../support/link.ts';
import type { Fault, Mend } from './fault.ts';

const SLOW_BYTES_A_SECOND = 5_000_000;

/** Holds back the bytes sent in one direction. They arrive after the fault, or never if `isLost` is true. */
function held(link: Link | undefined, direction: Parameters<Link['hold']>[0], isLost: boolean): Mend {
  link?.hold(direction);
  return () => {
    if (isLost) link?.cut();
    link?.mend();
  };
}

export const commandsHeld: Fault = {
  name: 'link to Redis cut one way: no commands',
  weight: 2,
  touches: 'queue',
  holdMs: [200, 3_000],
  begin: ({ queue: { link } }, random) => held(link, 'to the server', random.chance(0.5)),
};

export const commandsLost: Fault = {
  ...commandsHeld,
  begin: ({ queue: { link } }) => held(link, 'to the server', true),
};

export const answersHeld: Fault = {
  name: 'link to Redis cut one way: no answers',
  weight: 2,
  touches: 'queue',
  holdMs: [200, 3_000],
  begin: ({ queue: { link } }, random) => held(link, 'from the server', random.chance(0.5)),
};

export const warehouseAnswersHeld: Fault = {
  name: 'link to the warehouse cut one way: no answers',
  weight: 2,
  touches: 'warehouse',
  needsServer: true,
  holdMs: [200, 3_000],
  begin: ({ options: { warehouse } }, random) => held(warehouse.server?.link, 'from the server', random.chance(0.5)),
};

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

/** Open connections to the queue and the warehouse are cut, so every program must resolve the names again. */
export const namesUnknown: Fault = {
  name: 'names do not resolve',
  weight: 3,
  touches: 'queue',
  holdMs: [200, 3_000],
  met: ({ names }) => names.met,
  begin: ({ names, queue, options: { warehouse } }) => {
    names.begin();
    for (const link of [queue.link, warehouse.server?.link]) {
      link?.cut();
      link?.mend();
    }
    return () => names.end();
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
