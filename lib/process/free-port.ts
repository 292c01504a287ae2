// A TCP port on 127.0.0.1 that is free now. Another process may take it before the caller does.
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';

/** Rejects with the system's error where there is none. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await once(server.close(), 'close');
  return port;
}
