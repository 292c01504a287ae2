// One connection for all partitions of a queue that have the same master.
//
// Fact: each connection costs a gateway one write and one read per call, so eight partitions cost eight of each per
// turn. Choice: partitions share a connection, and the calls of a turn are sent in one write. Effect:
// `BENCH_CASES=partitions make bench`.
//
// Invariants: each partition has its own client, and gives up only its own commands. No client joins a connection
// that owes the reply to a command that was given up, so an owner that gives up a silent server gets a new
// connection.
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { Clock } from '../../process/clock.ts';
import type { ByteClient } from '../wire/byte-client.ts';
import type { Reply } from '../wire/reply.ts';
import type { Argument } from '../wire/script.ts';
import type { Client } from './client.ts';

export class SharedClients {
  readonly #make: (uri: string) => ByteClient;
  readonly #links = new Map<string, Link>();

  constructor(make: (uri: string) => ByteClient) {
    this.#make = make;
  }

  open(uri: string): Client {
    return new SharedClient(() => this.#linkTo(uri));
  }

  #linkTo(uri: string): Link {
    const known = this.#links.get(uri);
    if (known?.isOpen === true) return known;
    const link = new Link(this.#make(uri));
    this.#links.set(uri, link);
    return link;
  }
}

class Link {
  readonly client: ByteClient;
  readonly #sharers = new Set<EventEmitter>();
  #ended = false;

  constructor(client: ByteClient) {
    this.client = client;
    client.on('ready', () => this.#tell('ready'));
    client.on('error', (cause) => this.#tell('error', cause));
    client.connect();
  }

  get isOpen(): boolean {
    return !this.#ended && !this.client.owesAbandoned;
  }

  join(sharer: EventEmitter): void {
    assert(!this.#ended);
    this.#sharers.add(sharer);
    if (!this.client.isReady) return;
    // An owner that joins an established connection still receives `ready`.
    queueMicrotask(() => {
      if (this.#sharers.has(sharer) && this.client.isReady) sharer.emit('ready');
    });
  }

  /** Gives up the sharer's outstanding commands. The last sharer closes the connection. */
  leave(sharer: EventEmitter): void {
    assert(this.#sharers.delete(sharer));
    this.client.abandon(sharer, new Error('the connection is closed'));
    if (this.#sharers.size > 0) return;
    this.#ended = true;
    this.client.destroy();
  }

  /** A listener may leave during the loop. */
  #tell(event: 'ready' | 'error', cause?: unknown): void {
    for (const sharer of [...this.#sharers]) if (this.#sharers.has(sharer)) sharer.emit(event, cause);
  }
}

class SharedClient extends EventEmitter implements Client {
  readonly #find: () => Link;
  #link: Link | undefined;
  /** Replies arrive in order, so the reply to the latest command is the last one. */
  #lastAnswer: Promise<unknown> | undefined;

  constructor(find: () => Link) {
    super();
    this.#find = find;
  }

  get isReady(): boolean {
    return this.#link?.client.isReady ?? false;
  }

  connect(): void {
    assert(this.#link === undefined);
    this.#link = this.#find();
    this.#link.join(this);
  }

  send(command: readonly Argument[]): Promise<Reply> {
    if (this.#link === undefined) return Promise.reject(new Error('the connection is closed'));
    const answer = this.#link.client.send(command, this);
    this.#lastAnswer = answer;
    return answer;
  }

  async close(): Promise<void> {
    await this.#lastAnswer?.catch(() => undefined);
    this.destroy();
  }

  destroy(): void {
    this.#link?.leave(this);
    this.#link = undefined;
  }
}

type Task = () => void;

/** The end of a turn, at which all partitions flush before their calls are written. */
export class TurnEnd {
  readonly #clock: Clock;
  #flushes: Task[] = [];
  /** Set while the flushes run. */
  #writes: Task[] | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Runs `flush` at the end of this turn. */
  readonly defer = (flush: Task): void => {
    if (this.#flushes.push(flush) === 1) this.#clock.turnEnd(this.#run);
  };

  /** Runs `write` after the flushes if they are running, and otherwise immediately. */
  readonly gather = (write: Task): void => {
    if (this.#writes === undefined) write();
    else this.#writes.push(write);
  };

  readonly #run = (): void => {
    const flushes = this.#flushes;
    const writes: Task[] = [];
    this.#flushes = [];
    this.#writes = writes;
    for (const flush of flushes) flush();
    this.#writes = undefined;
    for (const write of writes) write();
  };
}
