// TCP ports on 127.0.0.1 for servers that are told theirs, and that come again on it after they were killed.
//
// Fact: a port that the system chose and that is free again may be chosen for the next server that asks for any, in
// another test. Choice: ports below those that systems choose from, at random. Effect: only another test that chooses the
// same one of 22,000 at the same moment can take it before its server has it.
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
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
