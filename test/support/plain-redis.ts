// A Redis client for tests: RESP2 on one connection, without reconnecting. Loading a client package would cost each
// test file a fifth of a second of CPU time.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

interface Read {
  readonly value: unknown;
  readonly next: number;
}

export class PlainRedis {
  readonly #socket: Socket;
  readonly #waiting: PromiseWithResolvers<unknown>[] = [];
  #received: Buffer = Buffer.alloc(0);

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
    for (let read = this.#read(0); read !== undefined; read = this.#read(0)) {
      this.#received = this.#received.subarray(read.next);
      const waiting = this.#waiting.shift();
      if (read.value instanceof Error) waiting?.reject(read.value);
      else waiting?.resolve(read.value);
    }
  }

  /** Returns the reply that begins at a position, or undefined if it is not complete. */
  #read(at: number): Read | undefined {
    const end = this.#received.indexOf('\r\n', at);
    if (end === -1) return undefined;
    const line = this.#received.toString('utf8', at + 1, end);
    const next = end + 2;
    switch (this.#received.toString('latin1', at, at + 1)) {
      case '+':
        return { value: line, next };
      case '-':
        return { value: new Error(line), next };
      case ':':
        return { value: Number(line), next };
      case '$': {
        if (line === '-1') return { value: null, next };
        const until = next + Number(line);
        if (this.#received.length < until + 2) return undefined;
        return { value: this.#received.toString('utf8', next, until), next: until + 2 };
      }
      default:
        return line === '-1' ? { value: null, next } : this.#list(Number(line), next);
    }
  }

  #list(length: number, from: number): Read | undefined {
    const value: unknown[] = [];
    let next = from;
    while (value.length < length) {
      const read = this.#read(next);
      if (read === undefined) return undefined;
      value.push(read.value);
      next = read.next;
    }
    return { value, next };
  }
}
