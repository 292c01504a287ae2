// Connections to the queue's server in virtual time. A connection may be slow, or break before or after its commands
// arrive. The server may refuse connections, or accept them without answering. As with TCP, the commands and answers
// of a connection arrive whole and in order.
import { RedisError } from '../../lib/redis/wire/errors.ts';
import { CONNECT_TIMEOUT_MS, type Client, type ClientUser } from '../../lib/redis/wire/redis-client.ts';
import type { Argument, Command, RedisBytes, RedisValue } from '../../lib/redis/wire/values.ts';
import type { Timer } from '../../lib/process/clock.ts';
import { decoded, type RedisServer } from './redis-server.ts';
import { actor, type Actor, type Schedule } from './schedule.ts';

interface Call {
  command: readonly Argument[];
  readonly resolve: (reply: RedisBytes) => void;
  readonly reject: (cause: Error) => void;
  state: 'sent' | 'blocked' | 'run';
  /** True if the connection was lost, so that nobody waits for the answer. */
  lost: boolean;
  timer?: Timer;
}

export interface NetworkOptions {
  readonly schedule: Schedule;
  readonly server: RedisServer;
  /** Called with the kind of each command that has run. */
  readonly watch: (kind: string) => void;
}

/** The actor of data in the kernel, which outlives the program that sent it. */
const WIRE = actor('wire');

export class Network {
  readonly options: NetworkOptions;
  up = true;
  /** The server does not answer until this time. */
  stillMs = 0;
  readonly slowMs = new Map<Actor, number>();
  readonly #links = new Set<Link>();
  readonly #blocked: { readonly link: Link; readonly call: Call }[] = [];

  constructor(options: NetworkOptions) {
    this.options = options;
  }

  clients(of: Actor): (uri: string, name: string) => Client {
    return () => {
      const link = new Link(this, of);
      this.#links.add(link);
      return link;
    };
  }

  cut(of?: Actor, arrives = this.options.schedule.random.chance(0.5)): void {
    for (const link of this.#links) if (of === undefined || link.actor === of) link.cut(arrives);
  }

  forget(link: Link): void {
    this.#links.delete(link);
  }

  latencyMs(of: Actor): number {
    const { random } = this.options.schedule;
    return 0.05 + random.fraction() * (random.chance(0.1) ? 8 : 0.6) + (this.slowMs.get(of) ?? 0);
  }

  onWire(afterMs: number, run: () => unknown): Timer {
    return this.options.schedule.park(WIRE, afterMs, '', run);
  }

  async run(link: Link, call: Call): Promise<void> {
    const block = call.command.indexOf('BLOCK');
    const waitMs = block === -1 ? 0 : Number(call.command[block + 1]);
    const { kind, isNothing } = await this.#ask(link, call, waitMs > 0);
    if (isNothing) {
      call.state = 'blocked';
      const waiting = { link, call };
      this.#blocked.push(waiting);
      call.timer = this.onWire(waitMs, () => this.#wake(waiting, true));
    }
    const adds = (kind === 'accept' && call.command.length > 5) || kind === 'replay' || kind === 'erase';
    if (adds) for (const waiting of [...this.#blocked]) await this.#wake(waiting, false);
  }

  async #wake(waiting: { readonly link: Link; readonly call: Call }, isOver: boolean): Promise<void> {
    const at = this.#blocked.indexOf(waiting);
    if (at === -1) return;
    const { link, call } = waiting;
    if (call.lost || !this.up) {
      this.#blocked.splice(at, 1);
      return;
    }
    if ((await this.#ask(link, call, !isOver)).isNothing) return;
    call.timer?.close();
    this.#blocked.splice(this.#blocked.indexOf(waiting), 1);
  }

  /** Runs a command. `isNothing` is true if a blocking read has found nothing yet. */
  async #ask(link: Link, call: Call, mayBlock: boolean): Promise<{ kind: string; isNothing: boolean }> {
    const { schedule, server, watch } = this.options;
    const block = call.command.indexOf('BLOCK');
    const command = block === -1 ? call.command : call.command.filter((_, at) => at !== block && at !== block + 1);
    const { answer, line } = await server.run(schedule.nowMs, command);
    const kind = server.kindOf(command);
    if (mayBlock && answer === null) return { kind, isNothing: true };
    schedule.note(`${link.actor.name} ${line}`);
    call.state = 'run';
    watch(kind);
    link.answered(call, answer);
    return { kind, isNothing: false };
  }
}

export class Link implements Client {
  readonly actor: Actor;
  readonly bytesReceived = 0;
  readonly #network: Network;
  #isReady = false;
  #calls: Call[] = [];
  #out: Call[] = [];
  #in: { readonly call: Call; readonly answer: RedisBytes | RedisError }[] = [];
  #isCut = false;
  #closed = false;
  #user: ClientUser | undefined;
  #opening: Timer | undefined;

  constructor(network: Network, of: Actor) {
    this.actor = of;
    this.#network = network;
  }

  join(user: ClientUser): void {
    this.#user = user;
    this.#open(0, CONNECT_TIMEOUT_MS);
  }

  #open(pauseMs: number, leftMs: number): void {
    const { schedule } = this.#network.options;
    const latencyMs = 2 * this.#network.latencyMs(this.actor);
    this.#opening = schedule.park(this.actor, pauseMs + latencyMs, 'connects', () => {
      if (this.#closed) return;
      const still = this.#network.stillMs - schedule.nowMs;
      if (!this.#network.up) this.#lose(new Error('connection refused'));
      else if (still > 0 && leftMs <= 0) this.#lose(new Error('the server does not answer'));
      else if (still > 0) this.#open(Math.min(still, leftMs), leftMs - still);
      else {
        this.#isReady = true;
        this.#user?.onReady();
      }
    });
  }

  async send(command: Command): Promise<RedisValue> {
    return decoded(await this.sendForBytes(command));
  }

  sendForBytes(command: Command): Promise<RedisBytes> {
    if (!this.#isReady) return Promise.reject(new Error('not connected to the queue'));
    return new Promise((resolve, reject) => {
      const call: Call = { command: [], resolve, reject, state: 'sent', lost: this.#isCut };
      this.#calls.push(call);
      // As the package `redis` does, the client writes at the end of the turn.
      this.#network.options.schedule.park(this.actor, 0, '', () => {
        if (call.lost) return;
        call.command = Array.from(command);
        this.#out.push(call);
        this.#network.onWire(this.#network.latencyMs(this.actor), () => this.#arrive());
      });
    });
  }

  async #arrive(): Promise<void> {
    const { schedule } = this.#network.options;
    if (!this.#network.up) return;
    const still = this.#network.stillMs - schedule.nowMs;
    if (still > 0) {
      this.#network.onWire(still, () => this.#arrive());
      return;
    }
    const call = this.#out.shift();
    if (call !== undefined) await this.#network.run(this, call);
  }

  answered(call: Call, answer: RedisBytes | RedisError): void {
    if (call.lost) return;
    this.#in.push({ call, answer });
    const { schedule } = this.#network.options;
    schedule.park(this.actor, this.#network.latencyMs(this.actor), '', () => {
      const next = this.#in.shift();
      if (next === undefined) return;
      this.#calls.splice(this.#calls.indexOf(next.call), 1);
      if (next.answer instanceof RedisError) next.call.reject(next.answer);
      else next.call.resolve(next.answer);
    });
  }

  /** Breaks the connection. `arrives` tells whether commands in transit still reach the server. */
  cut(arrives: boolean): void {
    if (!this.#isReady || this.#isCut) return;
    this.#isCut = true;
    this.#leave(arrives);
    const { schedule } = this.#network.options;
    schedule.park(this.actor, this.#network.latencyMs(this.actor), 'loses its connection', () => {
      if (!this.#closed) this.#lose(new Error('the connection was closed by the other side'));
    });
  }

  #leave(arrives: boolean): void {
    for (const call of this.#calls) call.lost = true;
    this.#in = [];
    if (!arrives) this.#out = [];
  }

  #lose(cause: Error): void {
    this.#isReady = false;
    for (const call of this.#calls.splice(0)) {
      call.lost = true;
      call.reject(cause);
    }
    this.#in = [];
    if (this.#closed) return;
    this.#closed = true;
    this.#network.forget(this);
    this.#user?.onLost(cause);
  }

  leave(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#opening?.close();
    this.#leave(this.#network.options.schedule.random.chance(0.5));
    this.#lose(new Error('the connection is closed'));
    this.#network.forget(this);
  }
}
