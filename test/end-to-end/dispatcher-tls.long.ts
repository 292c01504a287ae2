// Gateways that a dispatcher does not let in.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { event, PATIENT, TestClient, TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { eventually } from '../support/scope.ts';
import { dispatcher, server, tlsEnvironment } from './dispatcher-tls.ts';
import { deliver, pki, shop, SLOW } from './dispatcher.ts';

describe('a gateway of a dispatcher over TLS', () => {
  const refused = async (wrong: Readonly<Record<string, string>>, why: RegExp): Promise<void> => {
    const gateway = new Program('ingest-gateway', { env: { INGEST_GATEWAY_ADDR: '127.0.0.1:0', ...wrong } });
    assert.equal(await gateway.ended, 4, gateway.output);
    assert.match(gateway.output, why);
  };

  it('is told why not: another name, another authority, none, or no TLS at all', async () => {
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

  it('is thrown out when its authority is not trusted any more', async () => {
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
