// A TCP link in front of a server, that a test can cut and mend, slow down, and lead to another server: to the program
// under test it is one address all the time.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type NetConnectOpts, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

export interface Link {
  readonly port: number;
  /** Closes every connection and refuses new ones. */
  cut(): void;
  mend(): void;
  /** From now on so many bytes a second go through in each direction, over all connections; undefined: no limit. */
  slow(bytesPerSecond: number | undefined): void;
  /**
   * One direction carries nothing until `mend`, as where a route is lost one way: what is sent meanwhile comes late, or
   * where the link is cut first, never.
   */
  hold(direction: 'to the server' | 'from the server'): void;
  /** Closes every connection; new ones are taken, and nothing goes through them, also after `mend`. */
  silence(): void;
  /** How many connections were taken, and how many bytes the server sent. */
  readonly taken: number;
  readonly received: number;
  /** New connections go to another server; those that are open stay. */
  retarget(target: NetConnectOpts): void;
  close(): Promise<void>;
}

interface Direction {
  /** When it has carried what it was given, on the process's clock. */
  freeMs: number;
  /** Resolves when it carries again. */
  held: PromiseWithResolvers<void> | undefined;
}

export async function openLink(first: NetConnectOpts): Promise<Link> {
  let target = first;
  let whole = true;
  let rate: number | undefined;
  let silent = false;
  let taken = 0;
  let received = 0;
  const sockets = new Set<Socket>();
  const keep = (socket: Socket): Socket => {
    sockets.add(socket);
    return socket.on('error', () => undefined).once('close', () => sockets.delete(socket));
  };
  const up: Direction = { freeMs: 0, held: undefined };
  const down: Direction = { freeMs: 0, held: undefined };
  async function carry(from: Socket, onwards: Socket, direction: Direction): Promise<void> {
    onwards.once('close', () => from.destroy());
    try {
      for await (const chunk of from) {
        const bytes = chunk as Buffer;
        if (direction === down) received += bytes.length;
        await direction.held?.promise;
        if (onwards.destroyed) return;
        if (!onwards.write(bytes)) await once(onwards, 'drain');
        if (rate === undefined) continue;
        direction.freeMs = Math.max(direction.freeMs, performance.now()) + (bytes.length / rate) * 1000;
        const waitMs = direction.freeMs - performance.now();
        // A timer's step: shorter waits add up until they are one.
        if (waitMs >= 2) await delay(waitMs);
      }
      onwards.end();
    } catch {
      onwards.destroy();
    }
  }
  const server = createServer((incoming) => {
    keep(incoming);
    taken += 1;
    if (silent) return;
    if (!whole) {
      incoming.destroy();
      return;
    }
    const outgoing = keep(connect(target));
    void carry(incoming, outgoing, up);
    void carry(outgoing, incoming, down);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = (): void => {
    whole = false;
    for (const socket of sockets) socket.destroy();
  };
  const release = (): void => {
    for (const direction of [up, down]) {
      direction.held?.resolve();
      direction.held = undefined;
    }
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut,
    slow: (bytesPerSecond) => (rate = bytesPerSecond),
    mend: () => {
      whole = true;
      silent = false;
      release();
    },
    hold: (direction) => {
      (direction === 'to the server' ? up : down).held ??= Promise.withResolvers();
    },
    silence: () => {
      cut();
      whole = true;
      silent = true;
    },
    get taken() {
      return taken;
    },
    get received() {
      return received;
    },
    retarget: (other) => (target = other),
    close: async () => {
      cut();
      release();
      server.close();
      await once(server, 'close');
    },
  };
}
