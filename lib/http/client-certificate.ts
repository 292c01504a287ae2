// The certificate that a client presented in its TLS handshake.
import type { X509Certificate } from 'node:crypto';
import type { TLSSocket } from 'node:tls';

export interface ClientCertificate {
  readonly certificate: X509Certificate;
  /** OpenSSL's reason for rejecting the certificate; `undefined` if it was accepted. */
  readonly fault: string | undefined;
}

/**
 * Returns `undefined` if the client sent no certificate. Call this once, right after the handshake: later,
 * `getPeerX509Certificate()` returns the newest certificate, but `authorized` still refers to the first.
 */
export function clientCertificateOf(socket: TLSSocket): ClientCertificate | undefined {
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return undefined;
  return { certificate, fault: socket.authorized ? undefined : String(socket.authorizationError) };
}
