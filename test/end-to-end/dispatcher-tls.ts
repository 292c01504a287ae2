// A dispatcher over TLS, and gateways with certificates for it.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before } from 'node:test';
import { TestDispatcher } from '../support/dispatcher.ts';
import { Pki } from '../support/pki.ts';
import { temporaryFolder } from '../support/scope.ts';
import { pki, SLOW } from './dispatcher.ts';

/** The dispatcher's authority and its files. */
export let server: Pki;
export let dispatcher: TestDispatcher;
before(async () => {
  server = await Pki.create();
  dispatcher = await TestDispatcher.start({
    env: { ...SLOW, ...server.environment, INGEST_DISPATCH_CLIENTS: 'gateway-1 gateway-2' },
  });
});

/** The environment of a gateway with this certificate, which trusts the dispatcher's authority. */
export async function tlsEnvironment(
  names: readonly string[],
  authority: Pki,
  more = {},
): Promise<Record<string, string>> {
  const issued = await authority.authority.issue({
    commonName: 'gateway',
    dnsNames: ['localhost', ...names],
    addresses: ['127.0.0.1'],
    server: true,
    client: true,
    ...more,
  });
  const folder = temporaryFolder('ingest-gateway-tls-');
  const write = (name: string, content: string): string => {
    writeFileSync(join(folder, name), content);
    return join(folder, name);
  };
  return {
    ...pki.environment,
    INGEST_QUEUE_URI: `dispatchers://127.0.0.1:${dispatcher.port}`,
    INGEST_TLS_CERT: write('cert.pem', issued.certificate),
    INGEST_TLS_KEY: write('key.pem', issued.key),
    NODE_EXTRA_CA_CERTS: server.path('ca.pem'),
  };
}
