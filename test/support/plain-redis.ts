// A Redis client for tests: RESP2 on one connection, without reconnecting. Loading a client package would cost each
// test file a fifth of a second of CPU time.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

const INCOMPLETE = new Error('the reply is not complete');

export class PlainRedis {
  readonly #socket: Socket;
  readonly #waiting: PromiseWithResolvers<unknown>[] = [];
  #received: Buffer = Buffer.alloc(0);
  #at = 0;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (bytes: Buffer) => this.#take(bytes));
    socket.on('error', () => undefined);
    socket.on('close', () => {
      for (const { reject } of this.#waiting.splice(0)) reject(new Error('the connection to Redis is closed'));
    });
  }

  static async open(port: number, password?: string): Promise<PlainRedis> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    const client = new PlainRedis(socket);
    if (password !== undefined) await client.call('AUTH', password);
    return client;
  }

  get closed(): boolean {
    return !this.#socket.writable || !this.#socket.readable;
  }

  call(...words: readonly (string | Buffer)[]): Promise<unknown> {
    if (this.closed) return Promise.reject(new Error('the connection to Redis is closed'));
    const reply = Promise.withResolvers<unknown>();
    this.#waiting.push(reply);
    this.#socket.cork();
    this.#socket.write(`*${words.length}\r\n`);
    for (const word of words) {
      this.#socket.write(`$${Buffer.byteLength(word)}\r\n`);
      this.#socket.write(word);
      this.#socket.write('\r\n');
    }
    this.#socket.uncork();
    return reply.promise;
  }

  close(): void {
    this.#socket.destroy();
  }

  #take(bytes: Buffer): void {
    this.#received = Buffer.concat([this.#received, bytes]);
    // Every reply ends with a line feed, so a long one is not parsed again for each chunk.
    if (bytes.at(-1) !== 0x0a) return;
    try {
      while (this.#received.length > 0) {
        this.#at = 0;
        const value = this.#read();
        this.#received = this.#received.subarray(this.#at);
        const waiting = this.#waiting.shift();
        if (value instanceof Error) waiting?.reject(value);
        else waiting?.resolve(value);
      }
    } catch (cause) {
      if (cause !== INCOMPLETE) throw cause;
    }
  }

  /** Returns the reply at the current position, and advances the position. Throws if the reply is not complete. */
  #read(): unknown {
    const from = this.#at;
    const end = this.#received.indexOf('\r\n', from);
    if (end === -1) throw INCOMPLETE;
    const line = this.#received.toString('utf8', from + 1, end);
    this.#at = end + 2;
    const type = this.#received.toString('latin1', from, from + 1);
    if (type === '+') return line;
    if (type === '-') return new Error(line);
    if (type === ':') return Number(line);
    if (line === '-1') return null;
    if (type === '*') return Array.from({ length: Number(line) }, () => this.#read());
    this.#at += Number(line) + 2;
    if (this.#received.length < this.#at) throw INCOMPLETE;
    return this.#received.toString('utf8', end + 2, this.#at - 2);
  }
}
