import assert from 'node:assert/strict';
import { it } from 'node:test';
import { connect } from 'node:tls';
import { event, RawConnection, TestClient, tlsOptions } from '../support/client.ts';
import { gatewayInProcess } from '../support/gateway-in-process.ts';
import { Pki } from '../support/pki.ts';
import { eventually } from '../support/scope.ts';
import { Scrape } from '../support/scrape.ts';
import { requestText } from '../support/wire.ts';

it('a client that does not read its answers is disconnected as idle', async () => {
  const pki = await Pki.create();
  const { port } = await gatewayInProcess(pki, { INGEST_IDLE_TIMEOUT_MS: '500' });
  const [ca, producer] = [pki.authority.certificate, await pki.producer('one')];
  const client = new TestClient(port, ca, producer);
  assert.equal((await client.post(event('unread', { pad: 'x'.repeat(250_000) }))).status, 202);
  const stalled = new RawConnection(connect({ port, host: '127.0.0.1', ...tlsOptions(ca, producer, {}) }));
  stalled.socket.pause();
  stalled.write(requestText('GET /events/unread').repeat(200));
  const connections = async (): Promise<number> => (await Scrape.of(client)).sum('ingest_connections');
  await eventually('it is connected', async () => (await connections()) === 2);
  await eventually('it is cut off', async () => (await connections()) === 1, 60_000);
});
