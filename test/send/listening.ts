import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';
import { atEnd } from '../support/scope.ts';

/** Starts a server on a free port, and closes it at the end of the test file. */
export async function listening(server: Server, host = '127.0.0.1'): Promise<number> {
  server.listen(0, host);
  await once(server, 'listening');
  atEnd(() => void server.close());
  return (server.address() as AddressInfo).port;
}
