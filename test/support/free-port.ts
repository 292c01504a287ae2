// TCP ports on 127.0.0.1 for servers that are told theirs, and that come again on it after they were killed.
//
// Fact: a port that the system chose and that is free again may be chosen for the next server that asks for any, in
// another test. Choice: ports below those that systems choose from, at random, and each is kept from other test processes
// by a UDP socket of its number, which lasts as long as its process. Effect: no test meets the server of another one.
import { createSocket } from 'node:dgram';
import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

const LOWEST = 10_000;
/** Linux chooses from 32768 on, other systems from 49152 on. */
const BEHIND_HIGHEST = 32_768;

const given = new Set<number>();

/** A port that is free, and that this process was not given before. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(LOWEST, BEHIND_HIGHEST);
    if (given.has(port)) continue;
    given.add(port);
    if ((await isReserved(port)) && (await isFree(port))) return port;
  }
}

/** False where another process has it. */
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
