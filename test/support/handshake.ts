// OpenSSL's verdict on a client certificate, from a real handshake within this process.
import { once } from 'node:events';
import { duplexPair } from 'node:stream';
import { connect, createServer, type TLSSocket } from 'node:tls';

export interface Presented {
  readonly cert: string;
  readonly key: string;
}

/** Returns undefined if the server, which trusts `ca`, accepts the certificate, and the reason otherwise. */
export async function handshakeFault(
  client: Presented,
  trusting: Presented & { readonly ca: string; readonly crl?: string[] },
): Promise<string | undefined> {
  const [near, far] = duplexPair();
  const server = createServer({ ...trusting, requestCert: true, rejectUnauthorized: false });
  const secured = once(server, 'secureConnection') as Promise<[TLSSocket]>;
  server.emit('connection', far);
  const connected = connect({ socket: near, ...client, rejectUnauthorized: false }).on('error', () => undefined);
  try {
    const [accepted] = await secured;
    const fault = accepted.authorized ? undefined : String(accepted.authorizationError);
    accepted.destroy();
    return fault;
  } finally {
    connected.destroy();
  }
}
