// The short form of dispatcher-tls.long.ts.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PATIENT, TestClient, TestGateway } from '../support/gateway.ts';
import { dispatcher, server, tlsEnvironment } from './dispatcher-tls.ts';
import { deliver, pki, shop, SLOW } from './dispatcher.ts';

describe('a gateway of a dispatcher over TLS', () => {
  it('gets in with a certificate whose name is admitted', async () => {
    const issued = await tlsEnvironment(['gateway-2'], server);
    const gateway = await TestGateway.start(dispatcher, pki, { ...PATIENT, ...SLOW, ...issued });
    const client = new TestClient(gateway.port, server.authority.certificate, shop, {});
    await deliver(client, 'over-tls');
    assert.equal((await client.find('over-tls')).status, 200);
  });
});
