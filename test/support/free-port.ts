// TCP ports on 127.0.0.1 for servers that keep their port when they restart. Fact: between two starts of a server,
// the system may assign its port to another test. Choice: random ports below the ephemeral range, each reserved by a
// UDP socket with the same number. Effect: no test connects to the server of another test.
import { createSocket } from 'node:dgram';
import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

const LOWEST = 10_000;
/** The start of the ephemeral range on Linux. On other systems the range starts at 49152. */
const BEHIND_HIGHEST = 32_768;

const given = new Set<number>();

export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(LOWEST, BEHIND_HIGHEST);
    if (given.has(port)) continue;
    given.add(port);
    if ((await isReserved(port)) && (await isFree(port))) return port;
  }
}

/** Reserves the port. Resolves to false if another process has reserved it. */
function isReserved(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket('udp4').unref();
    socket.once('error', () => socket.close(() => resolve(false)));
    socket.bind({ port, address: '127.0.0.1', exclusive: true }, () => resolve(true));
  });
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
