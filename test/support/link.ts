// A TCP link in front of a server. A test can cut it, slow it down, or connect it to another server, while the
// program under test always sees the same address.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type NetConnectOpts, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

export type Link = Awaited<ReturnType<typeof openLink>>;

interface Direction {
  /** The time at which all bytes accepted so far will have passed at the limited rate (`performance.now()`). */
  freeMs: number;
  held: PromiseWithResolvers<void> | undefined;
}

export async function openLink(first: NetConnectOpts) {
  let target = first;
  let whole = true;
  let rate: number | undefined;
  let silent = false;
  /** Connections, and bytes in each direction. */
  const counts = { taken: 0, received: 0, sent: 0 };
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
        counts[direction === down ? 'received' : 'sent'] += bytes.length;
        await direction.held?.promise;
        if (onwards.destroyed) return;
        if (!onwards.write(bytes)) await once(onwards, 'drain');
        if (rate === undefined) continue;
        direction.freeMs = Math.max(direction.freeMs, performance.now()) + (bytes.length / rate) * 1000;
        const waitMs = direction.freeMs - performance.now();
        // Timers have a resolution of one or two milliseconds, so shorter waits accumulate first.
        if (waitMs >= 2) await delay(waitMs);
      }
      onwards.end();
    } catch {
      onwards.destroy();
    }
  }
  const server = createServer((incoming) => {
    keep(incoming);
    counts.taken += 1;
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
  return Object.assign(counts, {
    port: (server.address() as AddressInfo).port,
    cut,
    /** Limits the total rate of all connections in each direction. Undefined removes the limit. */
    slow: (bytesPerSecond: number | undefined) => void (rate = bytesPerSecond),
    mend: () => {
      whole = true;
      silent = false;
      release();
    },
    /** Holds all bytes in one direction until `mend`, or until a cut discards them. */
    hold: (direction: 'to the server' | 'from the server') => {
      (direction === 'to the server' ? up : down).held ??= Promise.withResolvers();
    },
    /** Closes every connection. New connections are accepted but carry nothing until `mend`. */
    silence: () => {
      cut();
      whole = true;
      silent = true;
    },
    /** Sends new connections to another server. Existing connections are not affected. */
    retarget: (other: NetConnectOpts) => void (target = other),
    close: async () => {
      cut();
      release();
      server.close();
      await once(server, 'close');
    },
  });
}
