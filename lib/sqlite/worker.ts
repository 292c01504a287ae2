// The worker thread of the SQLite warehouse: it owns the file, and does what it is asked, one call after the other.
import { parentPort, workerData } from 'node:worker_threads';
import {
  BatchRefused,
  WarehouseMisconfigured,
  type QuarantinedEntry,
  type QuarantinedEvent,
  type Warehouse,
} from '../ingest/warehouse.ts';
import { SystemClock } from '../process/clock.ts';
import type { LandingColumns } from './columns.ts';
import { Database, type SqliteWarehouseOptions } from './database.ts';

/** A call by the warehouse's thread. */
export type WorkerCall =
  | { readonly kind: 'prepare' | 'probe' | 'close' }
  | { readonly kind: 'land'; readonly columns: LandingColumns }
  | { readonly kind: 'quarantine'; readonly entries: readonly QuarantinedEntry[] }
  | { readonly kind: 'release'; readonly entries: readonly QuarantinedEvent[] }
  | { readonly kind: 'prune'; readonly step: Parameters<Warehouse['prune']> }
  | { readonly kind: 'find'; readonly id: string; readonly producer: string };

/** `refused` is the code of a BatchRefused; `misconfigured` stands for a WarehouseMisconfigured. */
export type WorkerReply =
  | { readonly call: number; readonly value: unknown }
  | { readonly call: number; readonly message: string; readonly refused?: string; readonly misconfigured?: boolean };

const database = new Database({ ...(workerData as SqliteWarehouseOptions), clock: new SystemClock() });

function run(call: WorkerCall): unknown {
  switch (call.kind) {
    case 'prepare':
      return database.prepare();
    case 'land':
      return land(call.columns);
    case 'quarantine':
      return database.quarantine(call.entries);
    case 'release':
      return database.release(call.entries);
    case 'prune':
      return database.prune(...call.step);
    case 'find':
      return database.find(call.id, call.producer);
    case 'probe':
      return database.probe();
    case 'close':
      return database.close();
  }
}

/** Gives the block of bodies back at once: it may be of 16 MiB, and the next collection many such blocks away. */
function land(columns: LandingColumns): Uint8Array {
  try {
    return database.land(columns);
  } finally {
    columns.bodies.buffer.transfer(0);
  }
}

async function answer(number: number, call: WorkerCall): Promise<WorkerReply> {
  try {
    return { call: number, value: await run(call) };
  } catch (cause) {
    if (!(cause instanceof BatchRefused)) {
      const message = cause instanceof Error ? cause.message : String(cause);
      return { call: number, message, misconfigured: cause instanceof WarehouseMisconfigured };
    }
    const why = cause.cause instanceof Error ? cause.cause.message : cause.message;
    return { call: number, message: why, refused: cause.message };
  }
}

parentPort?.on('message', ({ number, call }: { readonly number: number; readonly call: WorkerCall }) => {
  void answer(number, call).then((reply) => parentPort?.postMessage(reply));
});
