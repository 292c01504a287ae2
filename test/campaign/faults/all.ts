import * as clock from './clock.ts';
import * as disk from './disk.ts';
import * as failOver from './fail-over.ts';
import type { Fault } from './fault.ts';
import * as links from './links.ts';
import * as programs from './programs.ts';
import * as queue from './queue.ts';
import * as warehouse from './warehouse.ts';

export const FAULTS: readonly Fault[] = [clock, disk, failOver, links, programs, queue, warehouse].flatMap((faults) =>
  Object.values<Fault>(faults),
);
