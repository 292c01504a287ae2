// One connection to each server for all partitions of a queue that have it as their master.
//
// Fact: a connection costs a gateway a write and a read for each call, and with eight partitions there are eight in a
// turn. Choice: the partitions of one master share one, and what they send in one turn leaves in one write. Effect: see
// the case `partitions` of the benchmark.
//
// Each partition keeps a client of its own (client.ts), which it throws away as it pleases: that gives up its
// own commands and no others.
//
// Invariant: a connection that was given up with answers outstanding is left to those who have it, and given to no one
// else until those answers are there: an owner that gives up a silent server has a new one.
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { ByteClient } from '../wire/byte-client.ts';
import type { Reply } from '../wire/reply.ts';
import type { Argument } from '../wire/script.ts';
import type { Client } from './client.ts';
import type { Clock } from '../../process/clock.ts';

export class SharedClients {
  readonly #make: (uri: string) => ByteClient;
  /** By URI, the latest. */
  readonly #links = new Map<string, Link>();

  /** `make` makes what is shared. */
  constructor(make: (uri: string) => ByteClient) {
    this.#make = make;
  }

  /** One partition's client of the server that `uri` names. */
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

/** A connection and those who share it. */
class Link {
  readonly client: ByteClient;
  readonly #sharers = new Set<EventEmitter>();
  #ended = false;

  constructor(client: ByteClient) {
    this.client = client;
    client.on('ready', () => this.#tell('ready'));
    client.on('error', (cause) => this.#tell('error', cause));
    void client.connect();
  }

  /** Whether one more may join. */
  get isOpen(): boolean {
    return !this.#ended && !this.client.owesAbandoned;
  }

  join(sharer: EventEmitter): void {
    assert(!this.#ended);
    this.#sharers.add(sharer);
    if (!this.client.isReady) return;
    // An owner that joins an established connection gets the events of a new one.
    queueMicrotask(() => {
      if (this.#sharers.has(sharer) && this.client.isReady) sharer.emit('ready');
    });
  }

  /** Gives up what this one has outstanding. The last one to leave closes the connection. */
  leave(sharer: EventEmitter): void {
    assert(this.#sharers.delete(sharer));
    this.client.abandon(sharer, new Error('the connection is closed'));
    if (this.#sharers.size > 0) return;
    this.#ended = true;
    this.client.destroy();
  }

  /** A listener may leave meanwhile. */
  #tell(event: 'ready' | 'error', cause?: unknown): void {
    for (const sharer of [...this.#sharers]) if (this.#sharers.has(sharer)) sharer.emit(event, cause);
  }
}

class SharedClient extends EventEmitter implements Client {
  readonly #find: () => Link;
  #link: Link | undefined;
  /** Answers come in the order of the commands: after this one there are all. */
  #lastAnswer: Promise<unknown> | undefined;

  constructor(find: () => Link) {
    super();
    this.#find = find;
  }

  get isReady(): boolean {
    return this.#link?.client.isReady ?? false;
  }

  connect(): Promise<void> {
    assert(this.#link === undefined);
    this.#link = this.#find();
    this.#link.join(this);
    return Promise.resolve();
  }

  sendCommand(command: readonly Argument[]): Promise<Reply> {
    if (this.#link === undefined) return Promise.reject(new Error('the connection is closed'));
    const answer = this.#link.client.sendCommand(command, this);
    this.#lastAnswer = answer;
    return answer;
  }

  /** Leaves after what is outstanding; it does not wait for what the others have. */
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

export class TurnEnd {
  readonly #clock: Clock;
  #tasks: Task[] = [];
  /** What comes after the tasks that run now; undefined while none run. */
  #afterwards: Task[] | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Runs `task` at the end of this turn, once the sockets that are readable now were read. */
  readonly defer = (task: Task): void => {
    this.#tasks.push(task);
    if (this.#tasks.length === 1) this.#clock.turnEnd(this.#run);
  };

  /** Runs `task` after all that was deferred, while that runs, else immediately. */
  readonly afterwards = (task: Task): void => {
    if (this.#afterwards === undefined) task();
    else this.#afterwards.push(task);
  };

  readonly #run = (): void => {
    const tasks = this.#tasks;
    const afterwards: Task[] = [];
    assert(this.#afterwards === undefined);
    this.#tasks = [];
    this.#afterwards = afterwards;
    for (const task of tasks) task();
    this.#afterwards = undefined;
    for (const task of afterwards) task();
  };
}
