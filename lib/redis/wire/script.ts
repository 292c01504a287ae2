// A Lua script, called by its SHA-1. The text is sent only if the server does not know the script.
//
// Scripts are used instead of a function library, because a script is identified by its content: gateways of two
// versions can share a server, and a server that restarts empty needs no preparation.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { RedisError } from './errors.ts';
import type { Argument, Command, Sender } from './values.ts';

const SCRIPTS = new URL('../stream/lua/', import.meta.url);

export class Script {
  readonly #text: string;
  readonly #sha1: string;

  /** `file` and `shared` are files in stream/lua. */
  constructor(file: string, ...shared: readonly string[]) {
    const text = readFileSync(new URL(file, SCRIPTS), 'utf8');
    // The first line declares what the script may do, so it must remain first.
    const end = text.indexOf('\n') + 1;
    const functions = shared.map((name) => readFileSync(new URL(name, SCRIPTS), 'utf8')).join('');
    this.#text = text.slice(0, end) + functions + text.slice(end);
    this.#sha1 = createHash('sha1').update(this.#text).digest('hex');
  }

  /** Calls the script with one key, or with none if `key` is undefined. */
  run<Answer>(server: Sender<Answer>, key: string | undefined, ...args: (readonly Argument[])[]): Promise<Answer> {
    return this.#send(server, this.#command(key, args));
  }

  /** Calls the script with one key. `make` makes the other arguments when the client writes the call. */
  runLate<Answer>(server: Sender<Answer>, key: string, make: () => (readonly Argument[])[]): Promise<Answer> {
    return this.#send(server, new LateCommand(() => this.#command(key, make())));
  }

  #command(key: string | undefined, args: (readonly Argument[])[]): readonly Argument[] {
    // Fact: a spread array grows in steps, and each step copies it. Choice: `concat`.
    const rest: readonly Argument[] = key === undefined ? ['0'] : ['1', key];
    return ['EVALSHA' as Argument, this.#sha1].concat(rest, ...args);
  }

  #send<Answer>(server: Sender<Answer>, command: Command): Promise<Answer> {
    return server.send(command).catch((cause: unknown) => {
      if (!(cause instanceof RedisError && cause.code === 'NOSCRIPT')) throw cause;
      return server.send(['EVAL', this.#text, ...Array.from(command).slice(2)]);
    });
  }
}

/**
 * A command whose arguments are made when the client writes it.
 *
 * Fact: the package `redis` writes in the check phase after `sendCommand` (redis-client.ts). One sent in a check phase,
 * when all sockets have been read, leaves a turn later, and turns that wait for nothing read fewer sockets. Choice: a
 * call is sent with its first event and filled until it is written. Effect: calls of 13 events instead of 11 at
 * saturation, and 5 % less CPU time of Redis per event (`make bench-gate`).
 */
class LateCommand implements Command {
  [at: number]: Argument;
  #make: (() => readonly Argument[]) | undefined;
  #length = 0;

  constructor(make: () => readonly Argument[]) {
    this.#make = make;
  }

  get length(): number {
    const make = this.#make;
    if (make === undefined) return this.#length;
    this.#make = undefined;
    const made = make();
    // Fact: `Object.assign` takes 2.6 % of the samples of a gateway at 500 events/s. Choice: a loop.
    for (let at = 0; at < made.length; at += 1) this[at] = made[at] as Argument;
    return (this.#length = made.length);
  }
}
