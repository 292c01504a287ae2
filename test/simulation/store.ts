// The SQLite adapter on a file in memory, with the faults of a database across a network. It may be unavailable or
// slow, lose the answer to a statement with or without executing it, or refuse a batch because of its content. The
// statements of one program may overtake each other, but transactions remain atomic and durable.
import { rmSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { BatchRefused, BatchTooSlow, type Warehouse, type WarehouseLookup } from '../../lib/ingest/warehouse.ts';
import type { WarehouseAdmin } from '../../lib/ingest/warehouse-admin.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { createSqliteAdmin } from '../../lib/sqlite/admin.ts';
import { Database } from '../../lib/sqlite/database.ts';
import { actor, START_EPOCH_MS, type Actor, type Schedule } from './schedule.ts';
import { SYSTEM } from '../support/system.ts';

const POISON = '"poison"';

export interface Row {
  readonly id: string;
  readonly producer: string;
  readonly body: string;
  readonly landed_at: string;
}

export interface QuarantineRow {
  readonly entry: string;
  readonly id: string | null;
  readonly producer: string;
  readonly reason: string;
  readonly accepted_at: string;
  readonly body: Uint8Array;
}

const SESSION = actor('session');
/** Members that return a sequence. It arrives as a whole. */
const SEQUENCES: readonly (keyof WarehouseAdmin)[] = ['landedSince', 'quarantineList', 'removals'];
type Sequence = (...args: readonly unknown[]) => AsyncIterable<unknown>;

export class Store {
  readonly #database: Database;
  readonly #admin: WarehouseAdmin;
  readonly #look: DatabaseSync;
  readonly #path: string;
  readonly #version: StatementSync;
  readonly #rows: StatementSync;
  #schedule!: Schedule;
  /** The warehouse is unavailable until this time. */
  awayMs = 0;
  slowMs = 0;
  unknown = false;
  cured = false;

  private constructor(path: string) {
    this.#path = path;
    const epochMs = (): number => START_EPOCH_MS + Math.floor(this.#schedule.nowMs + this.#schedule.wallOffMs);
    const clock = Object.assign(Object.create(SYSTEM.clock) as Clock, { epochMs });
    this.#database = new Database({ ...SYSTEM, clock, path });
    this.#admin = createSqliteAdmin(path, clock);
    this.#look = new DatabaseSync(path);
    this.#version = this.#look.prepare('PRAGMA data_version');
    this.#rows = this.#look.prepare('SELECT id, producer, body, landed_at FROM events');
  }

  static async open(): Promise<Store> {
    const path = `/dev/shm/ingest-simulation-${process.pid}.db`;
    for (const end of ['', '-wal', '-shm']) rmSync(path + end, { force: true });
    await new Database({ ...SYSTEM, path }).prepare();
    return new Store(path);
  }

  close(): void {
    this.#database.close();
    void this.#admin.close();
    this.#look.close();
    for (const end of ['', '-wal', '-shm']) rmSync(this.#path + end, { force: true });
  }

  begin(schedule: Schedule): void {
    this.#schedule = schedule;
    [this.awayMs, this.slowMs, this.unknown, this.cured] = [0, 0, false, false];
    this.#look.exec('DELETE FROM events; DELETE FROM events_quarantine; DELETE FROM ingest_audit');
  }

  /** Changes with each transaction that changed a row. */
  get version(): unknown {
    return this.#version.get()?.['data_version'];
  }

  rows(): readonly Row[] {
    return this.#rows.all() as unknown as Row[];
  }

  quarantine(): readonly QuarantineRow[] {
    return this.#look
      .prepare('SELECT entry, id, producer, reason, accepted_at, body FROM events_quarantine')
      .all() as unknown as QuarantineRow[];
  }

  adminOf(program: Actor): WarehouseAdmin {
    const admin = this.#admin;
    return new Proxy(admin, {
      get: (_, name: keyof WarehouseAdmin) => {
        const member: unknown = Reflect.get(admin, name);
        if (typeof member !== 'function') return member;
        if (SEQUENCES.includes(name))
          return (...args: readonly unknown[]) => this.#pages(program, name, () => (member as Sequence)(...args));
        return (...args: readonly unknown[]) =>
          this.#ask(
            program,
            name,
            () => handledLater((member as (...given: readonly unknown[]) => Promise<unknown>)(...args)),
            1,
          );
      },
    });
  }

  of(program: Actor): Warehouse {
    const ask = <T>(what: string, run: () => T, weight = 1): Promise<T> => this.#ask(program, what, run, weight);
    return {
      prepare: () => ask('prepare', () => undefined),
      probe: () => ask('probe', () => undefined),
      land: (batch) =>
        ask(
          'land',
          () => {
            if (!this.cured && batch.some(({ body }) => body.includes(POISON))) throw new BatchRefused('poison');
            return this.#database.land(batch);
          },
          batch.length,
        ),
      quarantine: (entries) => ask('quarantine', () => this.#database.quarantine(entries)),
      release: (entries) => ask('release', () => this.#database.release(entries)),
      haveLanded: (events) => ask('find', () => this.#database.haveLanded(events)),
      find: (id, producer) =>
        ask('find', () => this.#database.find(id, producer)).catch((): WarehouseLookup => ({ kind: 'unavailable' })),
      close: () => Promise.resolve(),
    };
  }

  async *#pages(program: Actor, what: string, read: () => AsyncIterable<unknown>): AsyncGenerator<unknown> {
    const all = async (): Promise<readonly unknown[]> => {
      const found: unknown[] = [];
      for await (const one of read()) found.push(one);
      return found;
    };
    yield* await this.#ask(program, what, () => handledLater(all()), 1);
  }

  #ask<T>(program: Actor, what: string, run: () => T, weight: number): Promise<T> {
    const schedule = this.#schedule;
    const { random } = schedule;
    const wayMs = (): number =>
      0.05 + random.fraction() * (random.chance(0.1) ? 30 : 2) + this.slowMs * random.fraction();
    return new Promise((resolve, reject) => {
      const answer = (settle: () => void): void => void schedule.park(program, wayMs(), '', settle);
      const fail = (cause: Error): void => answer(() => reject(cause));
      schedule.park(SESSION, wayMs(), '', () => {
        // The program has died, and its statement may have been lost with it.
        if (!program.alive && random.chance(0.5)) return;
        schedule.note(`${program.name} ${what} ${weight}`);
        if (this.awayMs > schedule.nowMs) return fail(new Error('the warehouse does not answer'));
        if (this.slowMs > 0 && weight > 1 && random.chance(0.3)) return fail(new BatchTooSlow('too slow'));
        const unknown = this.unknown && random.chance(0.5);
        if (unknown && random.chance(0.3)) return fail(new Error('the connection was lost'));
        try {
          const result = run();
          if (unknown) fail(new Error('the connection was lost'));
          else answer(() => resolve(result));
        } catch (cause) {
          fail(cause as Error);
        }
      });
    });
  }
}

/** The caller handles a rejection later, so Node must not report it as unhandled before then. */
function handledLater<T>(answer: Promise<T>): Promise<T> {
  answer.catch(() => undefined);
  return answer;
}
