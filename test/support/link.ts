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

export async function openLink(first: NetConnectOpts): Promise<Link> {
  let target = first;
  let whole = true;
  let silent = false;
  let taken = 0;
  const sockets = new Set<Socket>();
  const keep = (socket: Socket): Socket => {
    sockets.add(socket);
    return socket.on('error', () => undefined).once('close', () => sockets.delete(socket));
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
    outgoing.pipe(incoming).once('close', () => outgoing.destroy());
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
