// A dispatcher over TLS, and gateways with certificates for it.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { TestDispatcher } from '../support/dispatcher.ts';
import { Pki } from '../support/pki.ts';
import { temporaryFolder, eventually } from '../support/scope.ts';
import { pki, SLOW, deliver, shop } from './dispatcher.ts';
import { PATIENT, TestClient, TestGateway, event } from '../support/gateway.ts';
import { Program } from '../support/program.ts';

/** The dispatcher's authority and its files. */
let server: Pki;
let dispatcher: TestDispatcher;
before(async () => {
  server = await Pki.create();
  dispatcher = await TestDispatcher.start({
    env: { ...SLOW, ...server.environment, INGEST_DISPATCH_CLIENTS: 'gateway-1 gateway-2' },
  });
});

/** The environment of a gateway with this certificate, which trusts the dispatcher's authority. */
async function tlsEnvironment(names: readonly string[], authority: Pki, more = {}): Promise<Record<string, string>> {
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

describe('a gateway of a dispatcher over TLS', () => {
  it('gets in with a certificate whose name is admitted', async () => {
    const issued = await tlsEnvironment(['gateway-2'], server);
    const gateway = await TestGateway.start(dispatcher, pki, { ...PATIENT, ...SLOW, ...issued });
    const client = new TestClient(gateway.port, server.authority.certificate, shop, {});
    await deliver(client, 'over-tls');
    assert.equal((await client.find('over-tls')).status, 200);
  });

  const refused = async (wrong: Readonly<Record<string, string>>, why: RegExp): Promise<void> => {
    const gateway = new Program('ingest-gateway', { env: { INGEST_GATEWAY_ADDR: '127.0.0.1:0', ...wrong } });
    assert.equal(await gateway.ended, 4, gateway.output);
    assert.match(gateway.output, why);
  };

  it('is told why not: another name, another authority, none, or no TLS at all', { tags: ['long'] }, async () => {
    await Promise.all([
      refused(
        await tlsEnvironment(['gateway-3'], server),
        /NOPERM no name in the client certificate is in INGEST_DISPATCH_CLIENTS.*gateway-3/,
      ),
      refused(await tlsEnvironment(['gateway-1'], pki), /NOPERM the client certificate is not accepted/),
      refused(await tlsEnvironment(['gateway-1'], server, { client: false }), /NOPERM .*INVALID_PURPOSE/),
      refused(
        { ...(await tlsEnvironment(['gateway-1'], server)), INGEST_QUEUE_URI: `rediss://127.0.0.1:${dispatcher.port}` },
        /NOPERM a client certificate is required/,
      ),
      refused(
        { ...(await tlsEnvironment(['gateway-1'], server)), INGEST_QUEUE_URI: dispatcher.uri },
        /takes no events/,
      ),
    ]);
    assert.deepEqual([await dispatcher.redis[0].length(), await dispatcher.redis[1].length()], [0, 0]);
  });

  it('is thrown out when its authority is not trusted any more', { tags: ['long'] }, async () => {
    const issued = await tlsEnvironment(['gateway-1'], server);
    const gateway = await TestGateway.start(dispatcher, pki, { ...PATIENT, ...SLOW, ...issued });
    const client = new TestClient(gateway.port, server.authority.certificate, shop, {});
    await deliver(client, 'trusted');
    const other = await Pki.create();
    server.write('ca.pem', other.authority.certificate);
    await eventually('events are refused', async () => (await client.post(event('trusted'))).status === 503);
    assert.ok((await dispatcher.metric('ingest_tls_reloads_total')) >= 1);
    server.write('ca.pem', server.authority.certificate);
    await eventually('and taken again', async () => (await client.post(event('trusted'))).status === 202);
  });
});
