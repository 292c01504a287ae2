// send/fake-gateway.test.ts runs the same suite against the fake gateway of ingest-client.
import assert from 'node:assert/strict';
import { event, TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { describeProducerContract, type ContractGateway } from './producers.ts';

describeProducerContract('of the gateway', async (): Promise<ContractGateway> => {
  const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  const certificate = await pki.producer('contract');
  const [gateway, limited] = await Promise.all([
    TestGateway.start(redis, pki),
    TestGateway.start(redis, pki, { INGEST_PRODUCER_RATE_MAX: '1' }),
  ]);
  const strict = limited.client(certificate);
  const client = gateway.client(certificate);
  const other = gateway.client(await pki.producer('another'));
  return {
    options: {
      url: `https://127.0.0.1:${gateway.port}`,
      cert: certificate.cert,
      key: certificate.key,
      ca: pki.authority.certificate,
    },
    ask: (ask) => client.ask(ask),
    takeByAnother: async (id) => assert.equal((await other.post(event(id))).status, 202),
    overQuota: async (body) => {
      for (;;) {
        const reply = await strict.post(body);
        if (reply.status !== 202) return reply;
      }
    },
    fail: async () => {
      await redis.signal('SIGKILL');
      return async () => {
        await redis.start();
        await eventually('the queue is back', async () => (await client.post(event('back'))).status === 202);
      };
    },
  };
});
