// A TLS port beside the plain one, for servers and sentinels of a test.
import type { Pki } from './pki.ts';

/**
 * For the command line, beside `--tls-port`: certificates of `pki`. None is asked of clients; nodes of a cluster show
 * theirs to each other.
 */
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
