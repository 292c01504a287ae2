import type { Pki } from './pki.ts';

/** Returns the arguments that `--tls-port` needs besides the port. Clients need no certificate. */
export async function tlsArguments(pki: Pki): Promise<readonly string[]> {
  const { cert, key } = await pki.producer('redis');
  return [
    ...['--tls-auth-clients', 'no', '--tls-ca-cert-file', pki.path('ca.pem')],
    ...['--tls-cert-file', pki.path('server.pem'), '--tls-key-file', pki.path('server-key.pem')],
    ...[
      '--tls-client-cert-file',
      pki.write('redis.pem', cert),
      '--tls-client-key-file',
      pki.write('redis-key.pem', key),
    ],
  ];
}
