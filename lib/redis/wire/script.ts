// A Lua script, called by its SHA-1. The text is sent only if the server does not know the script.
//
// Scripts are used instead of a function library, because a script is identified by its content: gateways of two
// versions can share a server, and a server that restarts empty needs no preparation.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { RedisError } from './errors.ts';
import type { Argument, Sender } from './values.ts';

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
  run<Answer>(server: Sender<Answer>, key: string | undefined, args: readonly Argument[]): Promise<Answer> {
    const command = [...this.command(key), ...args];
    return server.send(command).catch((cause: unknown) => {
      if (!isNoScript(cause)) throw cause;
      return server.send(this.withText(command));
    });
  }

  /** Returns the first part of a command that calls this script. The caller appends the arguments. */
  command(key: string | undefined): readonly string[] {
    return key === undefined ? ['EVALSHA', this.#sha1, '0'] : ['EVALSHA', this.#sha1, '1', key];
  }

  /** Returns the same call with the script's text, for a server that answered NOSCRIPT. */
  withText(command: readonly Argument[]): readonly Argument[] {
    return ['EVAL', this.#text, ...command.slice(2)];
  }
}

export const isNoScript = (cause: unknown): boolean => cause instanceof RedisError && cause.code === 'NOSCRIPT';
