// A TLS port beside the plain one, for servers and sentinels of a test.
import type { Pki } from './pki.ts';

/** For the command line: certificates of `pki`, none asked of clients. */
export const tlsArguments = (pki: Pki, port: number): readonly string[] => [
  ...['--tls-port', String(port), '--tls-auth-clients', 'no'],
  ...['--tls-cert-file', pki.path('server.pem'), '--tls-key-file', pki.path('server-key.pem')],
  ...['--tls-ca-cert-file', pki.path('ca.pem')],
];
