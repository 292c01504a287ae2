// The queue as ingest-admin sees it: all its partitions, a connection to each.
//
// A command about one event goes to the partition of its id. Erasing reads every partition: replays, and entries of
// other writers, may be in any.
import assert from 'node:assert/strict';
import {
  QueueFailed,
  type EntryState,
  type Erasure,
  type QueueAdmin,
  type QueuedCopy,
  type QueuedStream,
  type QueueStatus,
  type ReadEntries,
  type Replay,
  type Replayed,
  type ServerStatus,
} from '../../ingest/queue-admin.ts';
import { namesIn } from '../../ingest/erased.ts';
import { partitionOf } from '../../ingest/partition.ts';
import type { EntryName } from '../../ingest/queue.ts';
import type { ClockAndRandom } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { maskedUri } from '../../process/uri.ts';
import { queuePartitions } from '../stream/queue-partitions.ts';
import type { AdminConnectionOptions } from './admin-connection.ts';
import { StreamAdmin } from './stream-admin.ts';

interface PartitionedAdminOptions extends ClockAndRandom {
  readonly uri: string;
  /** Of a queue on a Redis Cluster. */
  readonly partitions: number;
  /** See IdentityOptions: false for commands that only look. */
  readonly makes: boolean;
  readonly connectMs?: number;
  readonly log: Log;
  /** See AdminConnectionOptions. */
  readonly client?: AdminConnectionOptions['client'];
}

export class PartitionedAdmin implements QueueAdmin {
  readonly place: string;
  /** By number. */
  readonly #all: readonly StreamAdmin[];
  #sources: Promise<ReadonlyMap<string, StreamAdmin>> | undefined;

  constructor({ uri, partitions, makes, connectMs, log, clock, random, client }: PartitionedAdminOptions) {
    this.place = maskedUri(uri);
    const parts = queuePartitions(uri, partitions, { makes, clock, random });
    this.#all = parts.map(
      (part) =>
        new StreamAdmin({
          ...{ ...part, makes, connectMs, log, clock, random, client },
          ...(parts.length > 1 ? { name: part.stream } : {}),
        }),
    );
  }

  async status(): Promise<QueueStatus> {
    const looks = await Promise.allSettled(this.#all.map((part) => part.status()));
    const found = looks.flatMap((look) => (look.status === 'fulfilled' ? [look.value] : []));
    const failures = looks.flatMap((look) => (look.status === 'rejected' ? [look.reason as unknown] : []));
    const [first] = failures;
    if (found.length === 0) throw first;
    const servers = new Map<string, ServerStatus>();
    for (const { run, server } of found) {
      const same = servers.get(run);
      servers.set(
        run,
        same === undefined ? server : { ...same, partitions: [...same.partitions, ...server.partitions] },
      );
    }
    return {
      servers: [...servers.values()],
      partitions: found.map(({ partition }) => partition),
      away: failures.map((cause) => (cause instanceof QueueFailed ? cause.message : String(cause))),
    };
  }

  get streams(): readonly QueuedStream[] {
    return this.#all;
  }

  clocks(): Promise<readonly number[]> {
    return Promise.all(this.#all.map((part) => part.clock()));
  }

  async find(id: string): Promise<QueuedCopy | undefined> {
    return partOf(this.#all, id).find(id);
  }

  async replay(rows: readonly Replay[], again: boolean): Promise<readonly Replayed[]> {
    const sources = await this.#bySource();
    const parts = Map.groupBy(rows.entries(), ([, row]) => sources.get(sourceOf(row.replayOf)) ?? this.#partOfRow(row));
    const replayed: Replayed[] = [];
    for (const [part, some] of parts) {
      const source = await part.source();
      const entries = await part.replay(
        some.map(([, row]) => row),
        again,
      );
      for (const [index, entry] of entries.entries()) replayed[some[index]?.[0] ?? 0] = { source, ...entry };
    }
    return replayed;
  }

  async states(entries: readonly EntryName[]): Promise<readonly EntryState[]> {
    const sources = await this.#bySource();
    const states: EntryState[] = Array.from(entries, () => 'gone');
    for (const [source, part] of sources) {
      const mine = [...entries.entries()].filter(([, entry]) => entry.source === source);
      if (mine.length === 0) continue;
      const found = await part.states(mine.map(([, { entry }]) => entry));
      for (const [index, [at]] of mine.entries()) states[at] = found[index] ?? 'gone';
    }
    return states;
  }

  async replicasAlive(): Promise<number> {
    const alive = await Promise.all(this.#all.map((part) => part.replicasAlive()));
    return Math.max(...alive);
  }

  async copies(id: string, rows: readonly string[]): Promise<readonly QueuedCopy[]> {
    const indexed = await partOf(this.#all, id).find(id);
    const found = indexed === undefined ? [] : [indexed];
    const names = [...new Set([...rows, ...found.map(nameOf)])];
    const noted = await Promise.all(this.#all.map((part) => part.noted(id, names)));
    return [...new Map([...found, ...noted.flat()].map((copy) => [nameOf(copy), copy])).values()];
  }

  async noteErasure(id: string): Promise<void> {
    await Promise.all(this.#all.map((part) => part.noteErasure(id)));
  }

  async erase(copy: QueuedCopy, id: string, body: string): Promise<Erasure> {
    const part = (await this.#bySource()).get(copy.source);
    return part === undefined ? 'gone' : part.erase(copy, id, body);
  }

  async readSince(sinceMs: number, onCounted: (entries: number) => void): Promise<ReadEntries> {
    let counted = 0;
    const count = (entries: number): void => onCounted((counted += entries));
    const counts = await Promise.all(this.#all.map((part) => part.countRead(sinceMs, count)));
    return {
      entries: counts.reduce((sum, entries) => sum + entries, 0),
      landAgain: async () => {
        await Promise.all(this.#all.map((part, at) => part.landAgain(sinceMs, counts[at] ?? 0)));
      },
    };
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((part) => part.close()));
  }

  /** Rejects where a partition is unavailable: an entry may be there. */
  #bySource(): Promise<ReadonlyMap<string, StreamAdmin>> {
    this.#sources ??= Promise.all(this.#all.map(async (part) => [await part.source(), part] as const)).then(
      (sources) => new Map(sources),
    );
    // Where one was away, the next call asks again.
    this.#sources.catch(() => (this.#sources = undefined));
    return this.#sources;
  }

  /** Of a row whose own stream is none of these: where its id belongs. */
  #partOfRow({ id, body }: Replay): StreamAdmin {
    return partOf(this.#all, id ?? namesIn(body).id ?? '');
  }
}

function partOf(parts: readonly StreamAdmin[], id: string): StreamAdmin {
  assert(parts.length > 0);
  return parts[partitionOf(id, parts.length)] as StreamAdmin;
}

/** As the name of a quarantine row. */
const nameOf = ({ source, entry }: QueuedCopy): string => `${source}/${entry}`;

/** Of the name of a quarantine row: `<queue id>/<stream>/<entry>~<digest>`. */
const sourceOf = (row: string): string => row.slice(0, Math.max(0, row.lastIndexOf('/')));
