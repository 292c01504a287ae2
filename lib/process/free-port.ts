// A TCP port on 127.0.0.1 that is free now. Another process may take it before the caller does.
import { createServer, type AddressInfo } from 'node:net';

/** Rejects with the system's error where there is none. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}
