// OpenSSL's verdict on a client certificate, from a real handshake within this process.
import type { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { duplexPair } from 'node:stream';
import { connect, createServer, type TLSSocket } from 'node:tls';

export interface Presented {
  readonly cert: string;
  readonly key: string;
}

/** Returns the certificate that arrived, and why a server that trusts `ca` refuses it; `undefined` if it does not. */
export async function handshake(
  client: Presented,
  trusting: Presented & { readonly ca: string; readonly crl?: string[] },
): Promise<{ readonly fault: string | undefined; readonly certificate: X509Certificate | undefined }> {
  const [near, far] = duplexPair();
  const server = createServer({ ...trusting, requestCert: true, rejectUnauthorized: false });
  const secured = once(server, 'secureConnection') as Promise<[TLSSocket]>;
  server.emit('connection', far);
  const connected = connect({ socket: near, ...client, rejectUnauthorized: false }).on('error', () => undefined);
  try {
    const [accepted] = await secured;
    const fault = accepted.authorized ? undefined : String(accepted.authorizationError);
    const certificate = accepted.getPeerX509Certificate();
    accepted.destroy();
    return { fault, certificate };
  } finally {
    connected.destroy();
  }
}
