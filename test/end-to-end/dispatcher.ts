// Gateways in front of a dispatcher in front of two Redis servers, as real processes (RFC 014).
import assert from 'node:assert/strict';
import { before } from 'node:test';
import type { TestDispatcher } from '../support/dispatcher.ts';
import { event, PATIENT, TestGateway, type Reply, type TestClient } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { eventually } from '../support/scope.ts';

/** Long: on a busy machine the default would shed what is only slow. */
export const SLOW = { INGEST_SHED_MS: '4000' } as const;

/** Restarts of the dispatcher included, on a busy machine. */
const DELIVERED_WITHIN_MS = 90_000;

export let pki: Pki;
export let shop: ClientCertificate;
before(async () => {
  pki = await Pki.create();
  shop = await pki.producer('shop');
});

export const gatewayOf = (
  dispatcher: TestDispatcher,
  env: Readonly<Record<string, string>> = {},
): Promise<TestGateway> => TestGateway.start(dispatcher, pki, { ...PATIENT, ...SLOW, ...env });

export const statusOf = (reply: Reply): unknown => reply.json?.['status'];

/** Sends as a producer should, until the event is accepted; gives every answer. */
export async function deliver(client: TestClient, id: string): Promise<Reply[]> {
  const replies: Reply[] = [];
  await eventually(
    `${id} is accepted`,
    async () => {
      const reply = await client.post(event(id)).catch(() => undefined);
      if (reply === undefined) return false;
      replies.push(reply);
      if (statusOf(reply) !== 'accepted') assert.equal(reply.json?.['retryable'], true, reply.body);
      return statusOf(reply) === 'accepted';
    },
    DELIVERED_WITHIN_MS,
  );
  return replies;
}
