// The worker thread of the SQLite warehouse, which owns the file.
import { parentPort, workerData } from 'node:worker_threads';
import type { LandingOutcome } from '../ingest/warehouse.ts';
import { SYSTEM } from '../process/clock.ts';
import { Database, type SqliteWarehouseOptions } from './database.ts';
import { batchOf, type BatchMessage } from './batch-message.ts';

export type Methods = Pick<
  Database,
  'prepare' | 'quarantine' | 'release' | 'haveLanded' | 'find' | 'probe' | 'close'
> & { land(message: BatchMessage): readonly LandingOutcome[] };

export interface WorkerCall {
  readonly number: number;
  readonly method: keyof Methods;
  readonly args: readonly unknown[];
}

/** An error loses its class between threads, so the reply names it. */
export type WorkerReply =
  | { readonly number: number; readonly value: unknown }
  | { readonly number: number; readonly error: Error; readonly kind: string };

const database = new Database({ ...(workerData as SqliteWarehouseOptions), clock: SYSTEM.clock });

function land(message: BatchMessage): readonly LandingOutcome[] {
  try {
    return database.land(batchOf(message));
  } finally {
    // Frees up to 16 MiB immediately. Many such blocks could accumulate before the next garbage collection.
    message.bodies.buffer.transfer(0);
  }
}

async function answer({ number, method, args }: WorkerCall): Promise<WorkerReply> {
  const run = (method === 'land' ? land : database[method].bind(database)) as (...args: readonly unknown[]) => unknown;
  try {
    return { number, value: await run(...args) };
  } catch (cause) {
    const error = cause as Error;
    return { number, error, kind: error.constructor.name };
  }
}

parentPort?.on('message', (call: WorkerCall) => {
  void answer(call).then((reply) => parentPort?.postMessage(reply));
});
