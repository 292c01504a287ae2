import { clockAhead, clockBack } from './clock.ts';
import { failingQueueFsync, failingWarehouseFsync, fullQueueDisk, fullWarehouseDisk } from './disk.ts';
import { failOver } from './fail-over.ts';
import type { Fault } from './fault.ts';
import {
  answersHeld,
  commandsHeld,
  cutQueue,
  cutWarehouse,
  namesUnknown,
  slowQueue,
  slowWarehouse,
  warehouseAnswersHeld,
} from './links.ts';
import {
  freezeConsumer,
  freezeConsumerLong,
  freezeConsumers,
  freezeGateway,
  killConsumer,
  killConsumers,
  killGateway,
  killProducer,
  rotateCredentials,
} from './programs.ts';
import {
  flushScripts,
  freezeAndKillQueue,
  freezeQueue,
  fullOfOld,
  fullQueue,
  killQueue,
  readOnlyQueue,
} from './queue.ts';
import { freezeWarehouse, killWarehouse, lockWarehouse, lockWarehouseLong } from './warehouse.ts';

export const FAULTS: readonly Fault[] = [
  ...[
    killProducer,
    killGateway,
    freezeGateway,
    killConsumer,
    killConsumers,
    freezeConsumer,
    freezeConsumers,
    freezeConsumerLong,
  ],
  ...[killQueue, freezeQueue, freezeAndKillQueue, fullQueue, fullOfOld, readOnlyQueue, flushScripts],
  ...[commandsHeld, answersHeld, warehouseAnswersHeld, namesUnknown, rotateCredentials],
  ...[cutQueue, slowQueue, cutWarehouse, slowWarehouse, failOver, clockAhead, clockBack],
  ...[killWarehouse, freezeWarehouse, lockWarehouse, lockWarehouseLong, fullWarehouseDisk, fullQueueDisk],
  ...[failingQueueFsync, failingWarehouseFsync],
];
