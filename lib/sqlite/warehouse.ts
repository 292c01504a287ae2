// The warehouse in one SQLite file, shared by processes on one machine. SQLite's locks do not work on network file
// systems.
//
// Fact: node:sqlite is synchronous, and each call waits for the disk and for the locks of other processes. Choice: a
// worker thread, so that requests, reads and health checks do not wait. If the worker exits, its calls reject, and
// the next call starts a new worker.
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { BatchRefused, TablesDiffer, WarehouseMisconfigured, type Warehouse } from '../ingest/warehouse.ts';
import type { SqliteWarehouseOptions } from './database.ts';
import { toMessage } from './batch-message.ts';
import type { Methods, WorkerCall, WorkerReply } from './worker.ts';

interface Pending {
  readonly resolve: (value: unknown) => void;
  readonly reject: (cause: Error) => void;
}

export function createSqliteWarehouse(options: SqliteWarehouseOptions): Warehouse {
  const thread = new FileThread(options);
  return {
    prepare: () => thread.ask('prepare', []),
    land: (batch) => {
      const message = toMessage(batch);
      return thread.ask('land', [message], [message.bodies.buffer]);
    },
    quarantine: (entries) => thread.ask('quarantine', [copiesOf(entries)]),
    release: (rows) => thread.ask('release', [rows]),
    haveLanded: (events) => thread.ask('haveLanded', [copiesOf(events)]),
    find: async (id, producer) => {
      if (!id.isWellFormed() || !producer.isWellFormed()) return { kind: 'unknown' };
      try {
        const result = await thread.ask('find', [id, producer]);
        return result.kind === 'rejected' ? { ...result, body: Buffer.from(result.body) } : result;
      } catch {
        return { kind: 'unavailable' };
      }
    },
    probe: () => thread.ask('probe', []),
    close: () => thread.close(),
  };
}

/** Copies each body out of its block, because a message would copy the whole block: see batch-message.ts. */
const copiesOf = <T extends { readonly body: Buffer }>(entries: readonly T[]): T[] =>
  entries.map((entry) => ({ ...entry, body: new Uint8Array(entry.body) as Buffer }));

const KINDS: Readonly<Record<string, new (message: string, options: ErrorOptions) => Error>> = {
  BatchRefused,
  TablesDiffer,
  WarehouseMisconfigured,
};

/** Starts the worker on the first call. The worker keeps the process alive only while a call is pending. */
class FileThread {
  readonly #options: SqliteWarehouseOptions;
  readonly #pending = new Map<number, Pending>();
  #worker: Worker | undefined;
  #calls = 0;

  constructor(options: SqliteWarehouseOptions) {
    this.#options = options;
  }

  ask<Method extends keyof Methods>(
    method: Method,
    args: Parameters<Methods[Method]>,
    moved: readonly ArrayBuffer[] = [],
  ): Promise<Awaited<ReturnType<Methods[Method]>>> {
    const worker = (this.#worker ??= this.#start());
    this.#calls += 1;
    const number = this.#calls;
    return new Promise((resolve, reject) => {
      this.#pending.set(number, { resolve: resolve as Pending['resolve'], reject });
      worker.ref();
      const call: WorkerCall = { number, method, args };
      worker.postMessage(call, moved);
    });
  }

  async close(): Promise<void> {
    const worker = this.#worker;
    if (worker === undefined) return;
    await this.ask('close', []);
    this.#worker = undefined;
    await worker.terminate();
  }

  #start(): Worker {
    const worker = new Worker(new URL(`./worker${extname(import.meta.filename)}`, import.meta.url), {
      workerData: this.#options,
    });
    worker.on('message', (reply: WorkerReply) => this.#settle(reply));
    worker.on('error', (cause) => this.#fail(worker, cause));
    worker.on('exit', () => this.#fail(worker, new Error('the thread of the SQLite warehouse has ended')));
    return worker;
  }

  #settle(reply: WorkerReply): void {
    const pending = this.#pending.get(reply.number);
    this.#pending.delete(reply.number);
    if (this.#pending.size === 0) this.#worker?.unref();
    if ('value' in reply) return pending?.resolve(reply.value);
    const { kind, error } = reply;
    pending?.reject(new (KINDS[kind] ?? Error)(error.message, { cause: error.cause }));
  }

  #fail(worker: Worker, cause: unknown): void {
    if (worker !== this.#worker) return;
    this.#worker = undefined;
    for (const { reject } of this.#pending.values()) reject(cause instanceof Error ? cause : new Error(String(cause)));
    this.#pending.clear();
  }
}
