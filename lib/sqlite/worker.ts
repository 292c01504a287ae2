// The worker thread of the SQLite warehouse, which owns the file.
import { parentPort, workerData } from 'node:worker_threads';
import { BatchRefused, TablesDiffer, WarehouseMisconfigured } from '../ingest/warehouse.ts';
import { SYSTEM } from '../process/clock.ts';
import { messageOf } from '../process/message-of.ts';
import { Database, type SqliteWarehouseOptions } from './database.ts';

export type Methods = Pick<
  Database,
  'prepare' | 'land' | 'quarantine' | 'release' | 'haveLanded' | 'find' | 'probe' | 'close'
>;

export type WorkerCall = {
  readonly [Method in keyof Methods]: { readonly method: Method; readonly given: Parameters<Methods[Method]> };
}[keyof Methods];

/**
 * An error loses its class between threads, so the reply records it: `refused` is the code of a BatchRefused,
 * `misconfigured` means WarehouseMisconfigured, and `differs` means its subclass TablesDiffer.
 */
export type WorkerReply =
  | { readonly call: number; readonly value: unknown }
  | {
      readonly call: number;
      readonly message: string;
      readonly refused?: string;
      readonly misconfigured?: boolean;
      readonly differs?: boolean;
    };

const database = new Database({ ...(workerData as SqliteWarehouseOptions), clock: SYSTEM.clock });

const methods = database as unknown as Record<keyof Methods, (...given: readonly unknown[]) => unknown>;

function run(call: WorkerCall): unknown {
  try {
    return methods[call.method](...call.given);
  } finally {
    // Frees up to 16 MiB immediately. Many such blocks could accumulate before the next garbage collection.
    if (call.method === 'land') call.given[0].bodies.buffer.transfer(0);
  }
}

async function answer(number: number, call: WorkerCall): Promise<WorkerReply> {
  try {
    return { call: number, value: await run(call) };
  } catch (cause) {
    if (!(cause instanceof BatchRefused)) {
      const misconfigured = cause instanceof WarehouseMisconfigured;
      return { call: number, message: messageOf(cause), misconfigured, differs: cause instanceof TablesDiffer };
    }
    return { call: number, message: messageOf(cause.cause), refused: cause.message };
  }
}

parentPort?.on('message', ({ number, call }: { readonly number: number; readonly call: WorkerCall }) => {
  void answer(number, call).then((reply) => parentPort?.postMessage(reply));
});
