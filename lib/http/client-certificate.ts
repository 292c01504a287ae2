// What a client showed of itself in the handshake that opened its connection.
import type { X509Certificate } from 'node:crypto';
import type { TLSSocket } from 'node:tls';

export interface ClientCertificate {
  readonly certificate: X509Certificate;
  /** Why OpenSSL did not accept it; undefined where it did. */
  readonly fault: string | undefined;
}

/**
 * To be asked once, when the handshake is done: later `getPeerX509Certificate()` gives the certificate of the latest
 * handshake, and `authorized` the verdict on the first one. Undefined where the client sent none.
 */
export function clientCertificateOf(socket: TLSSocket): ClientCertificate | undefined {
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return undefined;
  if (socket.authorized) return { certificate, fault: undefined };
  const error: unknown = socket.authorizationError;
  return { certificate, fault: error instanceof Error ? error.message : String(error) };
}
