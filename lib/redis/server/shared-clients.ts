// One client for all partitions of a queue that have the same master, so that their commands of a turn leave in one
// write.
//
// Invariants: a partition that gives up its client leaves it to the others, and the last one closes it. Nobody joins a
// client that somebody has given up, so a partition that gives up a silent server gets a new connection.
import { EventEmitter } from 'node:events';
import type { Client } from '../wire/redis-client.ts';
import type { Argument, RedisBytes, RedisValue } from '../wire/values.ts';

export class SharedClients {
  readonly #make: (uri: string, name: string) => Client;
  readonly #current = new Map<string, Shared>();

  constructor(make: (uri: string, name: string) => Client) {
    this.#make = make;
  }

  readonly open = (uri: string, name: string): Client => {
    let shared = this.#current.get(uri);
    if (shared === undefined || shared.isGivenUp) {
      shared = new Shared(this.#make(uri, name));
      this.#current.set(uri, shared);
    }
    return new Share(shared);
  };
}

class Shared {
  readonly client: Client;
  isGivenUp = false;
  #state: 'new' | 'connecting' | 'ready' = 'new';
  readonly #shares = new Set<EventEmitter>();

  constructor(client: Client) {
    this.client = client;
    client.on('ready', () => {
      this.#state = 'ready';
      for (const share of [...this.#shares]) this.#tell(share, 'ready');
    });
    client.on('error', (cause) => {
      this.isGivenUp = true;
      for (const share of [...this.#shares]) this.#tell(share, 'error', cause);
    });
  }

  join(share: EventEmitter): void {
    this.#shares.add(share);
    if (this.#state === 'ready') queueMicrotask(() => this.#tell(share, 'ready'));
    if (this.#state !== 'new') return;
    this.#state = 'connecting';
    this.client.connect();
  }

  leave(share: EventEmitter): void {
    this.isGivenUp = true;
    if (this.#shares.delete(share) && this.#shares.size === 0) this.client.destroy();
  }

  /** A share may leave before its turn. */
  #tell(share: EventEmitter, event: 'ready' | 'error', cause?: unknown): void {
    if (this.#shares.has(share)) share.emit(event, cause);
  }
}

class Share extends EventEmitter implements Client {
  readonly #shared: Shared;

  constructor(shared: Shared) {
    super();
    this.#shared = shared;
  }

  get bytesReceived(): number {
    return this.#shared.client.bytesReceived;
  }

  connect(): void {
    this.#shared.join(this);
  }

  send(command: readonly Argument[]): Promise<RedisValue> {
    return this.#shared.client.send(command);
  }

  sendForBytes(command: readonly Argument[]): Promise<RedisBytes> {
    return this.#shared.client.sendForBytes(command);
  }

  destroy(): void {
    this.#shared.leave(this);
  }
}
