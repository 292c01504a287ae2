// TCP ports on 127.0.0.1 for servers that keep their port when they are restarted. Fact: the system may hand out a port
// that it chose before to any other test. Choice: random ports below the ephemeral range, each reserved by a UDP socket
// of the same number. Effect: no test meets the server of another test.
import { createSocket } from 'node:dgram';
import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

const LOWEST = 10_000;
/** The ephemeral range starts at 32768 on Linux and at 49152 elsewhere. */
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

/** False if another process has reserved it. */
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
