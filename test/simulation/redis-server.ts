// The queue's server: a real Redis, asked one command at a time, whose clock is a file that the simulator writes.
//
// May fail: it is killed and back; stands still; is full, or read-only; forgets scripts; has a clock that is ahead or
// behind; comes back without what was not on the disk yet (everysec), or is another one that lacks what was not
// replicated. May not fail: the order of commands of one connection, the atomicity of a script, and what was written
// before the tail that is lost. A blocking read is a poll: it is asked again after each command that may have added an
// entry.
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { hash } from 'node:crypto';
import { ByteClient } from '../../lib/redis/wire/byte-client.ts';
import { RedisError } from '../../lib/redis/wire/errors.ts';
import { Reply } from '../../lib/redis/wire/reply.ts';
import type { Argument } from '../../lib/redis/wire/script.ts';
import { clockFrom, TestRedis } from '../support/redis.ts';
import { SYSTEM } from '../support/system.ts';
import { START_EPOCH_MS } from './schedule.ts';

/** What a script is for, by the first line of its description. */
const SCRIPTS: readonly (readonly [kind: string, text: string])[] = [
  ['accept', 'Accepts a batch'],
  ['claim', 'Takes over what'],
  ['trim', 'Drops what the queue'],
  ['find', 'Looks one event up'],
  ['erase', 'Replaces an entry'],
  ['replay', 'Puts quarantined entries'],
];
/** Whose answers say nothing of the moment of this machine, and tell what became of events. */
const TOLD = new Set(['accept', 'claim', 'find', 'XREADGROUP', 'XACK', 'erase', 'replay']);
/** What cannot change which entries are on the queue, or in hand. */
const READS = new Set([
  'find',
  'PING',
  'INFO',
  'CLIENT',
  'ROLE',
  'HELLO',
  'HMGET',
  'XINFO',
  'XRANGE',
  'XLEN',
  'script',
]);

/** Entries on the stream, the last one that the group has read, what its members hold, and the entries behind one. */
const LOOK = `#!lua flags=no-writes
local groups = redis.pcall('XINFO', 'GROUPS', 'ingest')
local last, held = '0-0', {}
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

/** One entry of the stream, and whether the group is done with it. */
export interface StoredEntry {
  readonly entry: string;
  readonly id: string;
  readonly producer: string;
  readonly done: boolean;
}

export class RedisServer {
  readonly #redis: TestRedis;
  readonly #client: ByteClient;
  readonly #file: number;
  readonly #kinds = new Map<string, string>();
  #writtenMs = Number.NaN;
  #snapshot: readonly StoredKey[] | undefined;
  /** How many processes there were before this one: its `master_replid`. */
  #processes = 0;
  #stored: readonly StoredEntry[] | undefined;
  #entries: readonly Omit<StoredEntry, 'done'>[] = [];
  /** The server's clock, from the simulation's, in milliseconds. */
  offMs = 0;

  private constructor(redis: TestRedis, client: ByteClient, file: number) {
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
    const client = new ByteClient({ ...SYSTEM, uri: redis.uri, name: 'simulation' });
    await new Promise((resolve) => {
      client.on('ready', resolve);
      void client.connect();
    });
    return new RedisServer(redis, client, file);
  }

  async stop(): Promise<void> {
    this.#client.destroy();
    closeSync(this.#file);
    await this.#redis.signal('SIGKILL');
  }

  /** Empty, and without faults, as at the begin of each seed. */
  async begin(): Promise<void> {
    this.#kinds.clear();
    this.#processes = 0;
    this.#snapshot = undefined;
    this.#stored = undefined;
    this.#entries = [];
    this.offMs = 0;
    this.#setClock(0);
    await this.#empty();
    await this.#client.sendCommand(['SCRIPT', 'FLUSH']);
  }

  /** What a command is: its name, or what its script is for. */
  kindOf(command: readonly Argument[]): string {
    const [name, text] = command.map(String);
    if (name === 'EVAL' && text !== undefined) {
      const kind = SCRIPTS.find(([, first]) => text.includes(`-- ${first}`))?.[0] ?? 'script';
      this.#kinds.set(hash('sha1', text), kind);
      return kind;
    }
    if (name === 'EVALSHA' && text !== undefined) return this.#kinds.get(text) ?? 'script';
    return name ?? '';
  }

  /** Runs a command at a moment of the simulation; gives the answer, and a line for the trace. */
  async run(nowMs: number, command: readonly Argument[]): Promise<{ answer: Reply | RedisError; line: string }> {
    this.#setClock(nowMs);
    const kind = this.kindOf(command);
    const answer = await this.#client.sendCommand(command).catch((cause: unknown) => {
      if (cause instanceof RedisError) return cause;
      throw cause;
    });
    if (kind === 'INFO' && answer instanceof Reply) {
      const text = answer.text().replace(/^(master_replid:).*/m, `$1${this.#processes}`);
      return { answer: new Reply(Buffer.from(`$${Buffer.byteLength(text)}\r\n${text}\r\n`)), line: kind };
    }
    if (!READS.has(kind)) this.#stored = undefined;
    const asked = hash('sha1', command.map(String).join('\0')).slice(0, 8);
    const told =
      answer instanceof RedisError
        ? answer.code
        : TOLD.has(kind)
          ? hash('sha1', JSON.stringify(answer.again().value())).slice(0, 8)
          : '';
    return { answer, line: `${kind} ${asked} ${told}` };
  }

  /** What is on the stream now. */
  async stored(nowMs: number): Promise<readonly StoredEntry[]> {
    return (this.#stored ??= await this.#look(nowMs));
  }

  /** Entries do not change, so only new ones are read, unless some were dropped. */
  async #look(nowMs: number): Promise<readonly StoredEntry[]> {
    this.#setClock(nowMs);
    const look = async (after: string): Promise<Look> =>
      (await this.#client.sendCommand(['EVAL', LOOK, '0', after])).value() as Look;
    const before = this.#entries;
    const more = await look(before.at(-1)?.entry ?? '-');
    const grown = more[0] === before.length + more[3].length;
    const [, last, held, fresh] = grown ? more : await look('-');
    this.#entries = [...(grown ? before : []), ...fresh.map(entryOf)];
    const pending = new Set(held.map(([entry]) => entry));
    return this.#entries.map((entry) => ({
      ...entry,
      done: !isBehind(entry.entry, last) && !pending.has(entry.entry),
    }));
  }

  /** Notes what is there now, to come back to. */
  async snapshot(nowMs: number): Promise<void> {
    this.#setClock(nowMs);
    const names = (await this.#client.sendCommand(['KEYS', '*'])).value() as readonly string[];
    this.#snapshot = await Promise.all(
      [...names].sort().map(async (key) => {
        const [ttl, dump] = await Promise.all([
          this.#client.sendCommand(['PTTL', key]),
          this.#client.sendCommand(['DUMP', key]),
        ]);
        return { key, ttlMs: ttl.integer(), dump: Buffer.from(dump.bytes()) };
      }),
    );
  }

  /** Goes back to what was noted last. */
  async loseTail(nowMs: number): Promise<void> {
    if (this.#snapshot === undefined) return;
    this.#processes += 1;
    this.#setClock(nowMs);
    this.#stored = undefined;
    this.#entries = [];
    await this.#empty();
    for (const { key, ttlMs, dump } of this.#snapshot)
      await this.#client.sendCommand(['RESTORE', key, String(Math.max(0, ttlMs)), dump]);
    this.#snapshot = undefined;
  }

  async #empty(): Promise<void> {
    for (const command of ['REPLICAOF NO ONE', 'CONFIG SET maxmemory 0', 'FLUSHALL'])
      await this.#client.sendCommand(command.split(' '));
  }

  async set(nowMs: number, ...command: string[]): Promise<void> {
    this.#setClock(nowMs);
    this.#stored = undefined;
    await this.#client.sendCommand(command);
  }

  #setClock(nowMs: number): void {
    const ms = Math.floor(START_EPOCH_MS + nowMs + this.offMs);
    if (ms === this.#writtenMs) return;
    this.#writtenMs = ms;
    writeSync(this.#file, textOf(ms), 0);
  }
}

/** As libfaketime reads an absolute time; always of the same length. */
const textOf = (ms: number): string => `${new Date(ms).toISOString().replace('T', ' ').slice(0, 23)}\n`;

function entryOf([entry, members]: readonly [string, string[]]): Omit<StoredEntry, 'done'> {
  const of = (name: string): string => members[members.indexOf(name) + 1] ?? '';
  const body = of('body');
  return { entry, id: (JSON.parse(body) as { id: string }).id, producer: of('producer') };
}

function isBehind(entry: string, last: string): boolean {
  const [ms = 0, number = 0] = entry.split('-').map(Number);
  const [lastMs = 0, lastNumber = 0] = last.split('-').map(Number);
  return ms > lastMs || (ms === lastMs && number > lastNumber);
}
