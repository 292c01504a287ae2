import assert from 'node:assert/strict';
import { it } from 'node:test';
import { queueAndProducer } from '../support/file-gateway.ts';
import { event, TestGateway } from '../support/gateway.ts';
import { eventually } from '../support/scope.ts';
import { requestText } from '../support/wire.ts';

const { redis, pki, producer } = await queueAndProducer();

it('a client that does not read its answers is disconnected as idle', async () => {
  const gateway = await TestGateway.start(redis, pki, { INGEST_IDLE_TIMEOUT_MS: '500' });
  const client = gateway.client(producer);
  assert.equal((await client.post(event('unread', { pad: 'x'.repeat(250_000) }))).status, 202);
  client.close();
  const connection = await gateway.socket(producer);
  connection.socket.pause();
  connection.write(requestText('GET /events/unread').repeat(200));
  await eventually('it is cut off', async () => (await gateway.metric('ingest_connections')) === 1, 60_000);
});
