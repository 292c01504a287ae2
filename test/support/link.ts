// A TCP link in front of a server, that a test can cut and mend: to the program under test the server is gone and comes
// back, on the same address.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type NetConnectOpts, type Socket } from 'node:net';

export interface Link {
  readonly port: number;
  /** Closes every connection and refuses new ones. */
  cut(): void;
  mend(): void;
  /** Closes every connection; new ones are taken, and nothing goes through them, also after `mend`. */
  silence(): void;
  /** How many connections were taken. */
  readonly taken: number;
  /** New connections go to another server; those that are open stay. */
  retarget(target: NetConnectOpts): void;
  close(): Promise<void>;
}

/** `bytesPerSecond` bounds what all connections together bring from the server; no bound by default. */
export async function openLink(first: NetConnectOpts, bytesPerSecond = Number.POSITIVE_INFINITY): Promise<Link> {
  let target = first;
  let whole = true;
  let silent = false;
  let taken = 0;
  const sockets = new Set<Socket>();
  const keep = (socket: Socket): Socket => {
    sockets.add(socket);
    return socket.on('error', () => undefined).once('close', () => sockets.delete(socket));
  };
  let freeAtMs = 0;
  /** Passes a piece on when the link is free for it, and takes no other one from this connection before. */
  const trickle = (from: Socket, to: Socket, bytes: Buffer): void => {
    freeAtMs = Math.max(freeAtMs, performance.now()) + (1000 * bytes.length) / bytesPerSecond;
    from.pause();
    setTimeout(
      () => {
        to.write(bytes);
        from.resume();
      },
      Math.max(0, freeAtMs - performance.now()),
    );
  };
  const server = createServer((incoming) => {
    keep(incoming);
    taken += 1;
    if (silent) return;
    if (!whole) {
      incoming.destroy();
      return;
    }
    const outgoing = keep(connect(target));
    incoming.pipe(outgoing).once('close', () => incoming.destroy());
    incoming.once('close', () => outgoing.destroy());
    if (bytesPerSecond === Number.POSITIVE_INFINITY) outgoing.pipe(incoming);
    else outgoing.on('data', (bytes: Buffer) => trickle(outgoing, incoming, bytes)).once('end', () => incoming.end());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = (): void => {
    whole = false;
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut,
    mend: () => {
      whole = true;
      silent = false;
    },
    silence: () => {
      cut();
      whole = true;
      silent = true;
    },
    get taken() {
      return taken;
    },
    retarget: (other) => (target = other),
    close: async () => {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}
