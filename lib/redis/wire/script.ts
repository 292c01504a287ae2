// A Lua script that the server knows by its SHA-1, sent whole only when the server has forgotten it.
//
// Why a script and not a function library: a script is named by its content, so gateways of two versions work on
// one server side by side, and a server that comes back empty needs nothing loaded beforehand.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { RedisError } from './errors.ts';
import type { RedisValue } from './reply.ts';

/** A part of a command: text, or bytes that may be no UTF-8. */
export type Argument = string | Buffer;

/** Whatever takes a command and gives its answer. */
export interface Sender<Answer> {
  send(command: readonly Argument[]): Promise<Answer>;
}

/** A server whose answers are values. */
export type Server = Sender<RedisValue>;

const SCRIPTS = new URL('../stream/lua/', import.meta.url);

export class Script {
  readonly #text: string;
  readonly #sha1: string;

  /**
   * `file` is a name in stream/lua; `shared` are others, whose functions it uses. Throws when one cannot be read: that
   * is a broken installation.
   */
  constructor(file: string, ...shared: readonly string[]) {
    const text = readFileSync(new URL(file, SCRIPTS), 'utf8');
    // The first line says what the script may do, and must stay the first.
    const end = text.indexOf('\n') + 1;
    const functions = shared.map((name) => readFileSync(new URL(name, SCRIPTS), 'utf8')).join('');
    this.#text = text.slice(0, end) + functions + text.slice(end);
    this.#sha1 = createHash('sha1').update(this.#text).digest('hex');
  }

  /** The beginning of a command for this script, with one key or none; the caller appends the arguments. */
  command(key?: string): string[] {
    return key === undefined ? ['EVALSHA', this.#sha1, '0'] : ['EVALSHA', this.#sha1, '1', key];
  }

  /** Sends a command begun by `command`. After NOSCRIPT (nothing was run) it goes again with the text. */
  run<Answer>(server: Sender<Answer>, command: readonly Argument[]): Promise<Answer> {
    return server.send(command).catch((cause: unknown) => {
      if (!(cause instanceof RedisError && cause.code === 'NOSCRIPT')) throw cause;
      return server.send(['EVAL', this.#text, ...command.slice(2)]);
    });
  }
}
