// A real Redis that receives one command at a time and reads its clock from a file that the simulation writes. It may
// be killed, frozen, full or read-only, forget scripts, have a wrong clock, or return without its last writes, as a
// promoted replica does. Scripts remain atomic, and earlier writes are kept. A blocking read is repeated after each
// command that may have added an entry.
import { closeSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { hash } from 'node:crypto';
import { causeOf, RedisError } from '../../lib/redis/wire/errors.ts';
import { RedisClient } from '../../lib/redis/wire/redis-client.ts';
import type { Argument, RedisBytes, RedisValue } from '../../lib/redis/wire/values.ts';
import { clockFrom, TestRedis } from '../support/redis.ts';
import { START_EPOCH_MS } from './schedule.ts';

/** The scripts that the simulation tells apart, and the end of their texts. */
const SCRIPTS = 'accept claim trim find-by-id erase replay register'.split(' ').map((kind) => {
  const text = readFileSync(new URL(`../../lib/redis/stream/lua/${kind}.lua`, import.meta.url), 'utf8');
  return [kind, text.slice(text.indexOf('\n') + 1)] as const;
});
const READ_ONLY = '#!lua flags=no-writes';
/** Commands whose answers are part of the trace, because they depend on events and not on this machine. */
const TOLD = new Set(['accept', 'claim', 'find-by-id', 'XREADGROUP', 'XACK', 'erase', 'replay']);
/** Commands that change neither the stream nor the pending list. */
const READS = new Set('find-by-id PING INFO CLIENT ROLE HELLO HMGET XINFO XRANGE XLEN register look'.split(' '));
const ADDS_NONE = new Set(['XREADGROUP', 'XACK', 'claim']);
/** Commands after which the invariants are checked, so the stream is read in the same turn. */
const LOOKED_AT = new Set(['XREADGROUP', 'XACK', 'trim', 'claim', 'erase']);

/**
 * A script that returns the length of the stream, the group's last read entry, the pending entries, and the entries
 * after a given entry.
 */
const LOOK = `#!lua flags=no-writes
local groups = redis.pcall('XINFO', 'GROUPS', 'ingest')
local last, held = '', {}
if not groups.err and groups[1] then
  for at = 1, #groups[1], 2 do if groups[1][at] == 'last-delivered-id' then last = groups[1][at + 1] end end
  held = redis.call('XPENDING', 'ingest', 'warehouse', '-', '+', 100000)
end
return { redis.call('XLEN', 'ingest'), last, held, redis.call('XRANGE', 'ingest', ARGV[1] == '-' and '-' or '(' .. ARGV[1], '+') }`;

type Look = readonly [length: number, last: string, held: readonly [string][], fresh: readonly [string, string[]][]];

interface StoredKey {
  readonly key: string;
  readonly ttlMs: number;
  readonly dump: Buffer;
}

export interface StoredEntry {
  readonly entry: string;
  readonly id: string;
  readonly producer: string;
}

/** The entries of the stream in order, and those of them that are not acknowledged. */
export interface Stored {
  readonly entries: readonly StoredEntry[];
  readonly waiting: readonly StoredEntry[];
  /** The number of entries in `waiting` that are unread. */
  readonly unread: number;
}

export class RedisServer {
  readonly #redis: TestRedis;
  readonly #client: RedisClient;
  readonly #file: number;
  readonly #kinds = new Map<string, string>();
  #writtenMs = Number.NaN;
  #snapshot: readonly StoredKey[] | undefined;
  /** The number of times the server was replaced. INFO reports it as `master_replid`. */
  #processes = 0;
  #stored: Stored | undefined;
  #entries: StoredEntry[] = [];
  /** True if the group has read every entry, so that a read need not ask the server. */
  #isRead = false;
  /** Milliseconds by which the server's clock is ahead of the simulated time. */
  offMs = 0;

  private constructor(redis: TestRedis, client: RedisClient, file: number) {
    this.#redis = redis;
    this.#client = client;
    this.#file = file;
  }

  static async start(): Promise<RedisServer> {
    const path = `/dev/shm/ingest-simulation-${process.pid}`;
    const file = openSync(path, 'w');
    process.on('exit', () => rmSync(path, { force: true }));
    writeSync(file, textOf(START_EPOCH_MS), 0);
    const env = { ...clockFrom(path), TZ: 'UTC' };
    const redis = await TestRedis.start(['--appendonly', 'no', '--hz', '1'], { env });
    const client = new RedisClient(redis.uri, 'simulation');
    const { promise: ready, resolve: onReady, reject: onLost } = Promise.withResolvers<void>();
    client.join({ onReady, onLost });
    await ready;
    return new RedisServer(redis, client, file);
  }

  async stop(): Promise<void> {
    closeSync(this.#file);
    await this.#redis.signal('SIGKILL');
  }

  async begin(): Promise<void> {
    this.#kinds.clear();
    this.#processes = 0;
    this.#snapshot = undefined;
    this.offMs = 0;
    this.#setClock(0);
    await this.#empty();
    await this.#client.send(['SCRIPT', 'FLUSH']);
  }

  kindOf(command: readonly Argument[]): string {
    const [name, text] = command.slice(0, 2).map(String);
    if (name === 'EVAL' && text !== undefined) {
      const known = SCRIPTS.find(([, code]) => text.endsWith(code))?.[0];
      const kind = known ?? (text.startsWith(READ_ONLY) ? 'look' : 'script');
      this.#kinds.set(hash('sha1', text), kind);
      return kind;
    }
    if (name === 'EVALSHA' && text !== undefined) return this.#kinds.get(text) ?? 'script';
    return name ?? '';
  }

  async run(nowMs: number, command: readonly Argument[]): Promise<{ answer: RedisBytes | RedisError; line: string }> {
    this.#setClock(nowMs);
    const kind = this.kindOf(command);
    const readsNew = kind === 'XREADGROUP' && command.at(-1) === '>';
    const answer = readsNew && this.#isRead ? null : await this.#ask(kind, command);
    if (kind === 'INFO' && answer instanceof Buffer) {
      const text = answer.toString().replace(/^(master_replid:).*/m, `$1${this.#processes}`);
      return { answer: Buffer.from(text), line: kind };
    }
    const asked = hash('sha1', command.map(String).join('\0')).slice(0, 8);
    if (answer instanceof RedisError) return { answer, line: `${kind} ${asked} ${answer.code}` };
    const told = TOLD.has(kind) ? hash('sha1', JSON.stringify(decoded(answer))).slice(0, 8) : '';
    return { answer, line: `${kind} ${asked} ${told}` };
  }

  async #ask(kind: string, command: readonly Argument[]): Promise<RedisBytes | RedisError> {
    const asked = this.#client.sendForBytes(command).catch((cause: unknown) => {
      const error = causeOf(cause);
      if (error instanceof RedisError) return error;
      throw error;
    });
    if (READS.has(kind)) return asked;
    this.#forget(!ADDS_NONE.has(kind));
    if (LOOKED_AT.has(kind)) this.#stored = await this.#look();
    if (kind === 'XREADGROUP') this.#isRead = !((await asked) instanceof RedisError) && this.#stored?.unread === 0;
    return asked;
  }

  async stored(nowMs: number): Promise<Stored> {
    this.#setClock(nowMs);
    return (this.#stored ??= await this.#look());
  }

  #forget(mayAdd = true): void {
    this.#stored = undefined;
    if (mayAdd) this.#isRead = false;
  }

  /** Reads the new entries. Entries never change, so all are read again only if some were trimmed. */
  async #look(): Promise<Stored> {
    const look = async (after: string): Promise<Look> =>
      (await this.#client.send(['EVAL', LOOK, '0', after])) as unknown as Look;
    const before = this.#entries;
    const more = await look(before.at(-1)?.entry ?? '-');
    const grown = more[0] === before.length + more[3].length;
    const [, last, held, fresh] = grown ? more : await look('-');
    if (!grown) this.#entries = [];
    this.#entries.push(...fresh.map(entryOf));
    const entries = this.#entries;
    let read = entries.length;
    while (read > 0 && isBehind((entries[read - 1] as StoredEntry).entry, last)) read -= 1;
    const pending = new Set(held.map(([entry]) => entry));
    const inHand = pending.size === 0 ? [] : entries.slice(0, read).filter(({ entry }) => pending.has(entry));
    return { entries, waiting: [...inHand, ...entries.slice(read)], unread: entries.length - read };
  }

  async snapshot(nowMs: number): Promise<void> {
    this.#setClock(nowMs);
    const names = (await this.#client.send(['KEYS', '*'])) as readonly string[];
    this.#snapshot = await Promise.all(
      [...names].sort().map(async (key) => {
        const asked = ['PTTL', 'DUMP'].map((name) => this.#client.sendForBytes([name, key]));
        const [ttlMs, dump] = (await Promise.all(asked)) as [number, Buffer];
        return { key, ttlMs, dump };
      }),
    );
  }

  async loseTail(nowMs: number): Promise<void> {
    if (this.#snapshot === undefined) return;
    this.#processes += 1;
    this.#setClock(nowMs);
    await this.#empty();
    for (const { key, ttlMs, dump } of this.#snapshot)
      await this.#client.send(['RESTORE', key, String(Math.max(0, ttlMs)), dump]);
    this.#snapshot = undefined;
  }

  async #empty(): Promise<void> {
    this.#forget();
    this.#entries = [];
    for (const command of ['REPLICAOF NO ONE', 'CONFIG SET maxmemory 0', 'FLUSHALL'])
      await this.#client.send(command.split(' '));
  }

  async set(nowMs: number, ...command: string[]): Promise<void> {
    this.#setClock(nowMs);
    this.#forget();
    await this.#client.send(command).catch((cause: unknown) => {
      throw causeOf(cause);
    });
  }

  #setClock(nowMs: number): void {
    const ms = Math.floor(START_EPOCH_MS + nowMs + this.offMs);
    if (ms === this.#writtenMs) return;
    this.#writtenMs = ms;
    writeSync(this.#file, textOf(ms), 0);
  }
}

/** Decodes the strings of a reply. */
export function decoded(reply: RedisBytes): RedisValue {
  if (reply instanceof Buffer) return reply.toString();
  if (typeof reply !== 'object' || reply === null) return reply;
  return (reply as readonly RedisBytes[]).map(decoded);
}

/** An absolute time for libfaketime. The text always has the same length, so it overwrites the previous one. */
const textOf = (ms: number): string => `${new Date(ms).toISOString().replace('T', ' ').slice(0, 23)}\n`;

function entryOf([entry, members]: readonly [string, string[]]): StoredEntry {
  const of = (name: string): string => members[members.indexOf(name) + 1] ?? '';
  const body = of('body');
  return { entry, id: (JSON.parse(body) as { id: string }).id, producer: of('producer') };
}

function isBehind(entry: string, last: string): boolean {
  const [ms = 0, number = 0] = entry.split('-').map(Number);
  const [lastMs = 0, lastNumber = 0] = last.split('-').map(Number);
  return ms > lastMs || (ms === lastMs && number > lastNumber);
}
