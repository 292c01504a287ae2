// What the cases of settings-effect share.
import { before } from 'node:test';
import { event, PATIENT, TestGateway } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { postText } from '../support/wire.ts';

export let redis: TestRedis;
export let pki: Pki;
export let producer: ClientCertificate;

before(async () => {
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  producer = await pki.producer('one');
});

export const chunked = (body: string): string =>
  `${postText('', ['Transfer-Encoding: chunked'])}${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;

/** INGEST_IN_FLIGHT_BYTES_MAX, of the gateways of `startBounded`. */
export const max = 10_000;

export const body = (id: string, bytes: number): string =>
  event(id, { fill: 'x'.repeat(bytes - event(id, { fill: '' }).length) });

export const startBounded = (): Promise<TestGateway> =>
  // The body that is held must not time out before the test is over.
  TestGateway.start(redis, pki, {
    ...PATIENT,
    INGEST_IN_FLIGHT_BYTES_MAX: String(max),
    INGEST_REQUEST_TIMEOUT_MS: '600000',
  });

/** Another producer's body that is announced and not sent, so that no event is alone. */
export async function hold(gateway: TestGateway, bytes: number): Promise<void> {
  const holder = await gateway.socket(await pki.producer('holder'));
  holder.write(postText('', [`Content-Length: ${bytes}`]));
  await eventually('its event is in flight', async () => (await gateway.metric('ingest_events_in_flight')) === 1);
}
