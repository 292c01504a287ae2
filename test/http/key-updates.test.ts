// Records that cost more than requests, and a bystander.
import assert from 'node:assert/strict';
import { createCipheriv, createHmac } from 'node:crypto';
import { Duplex } from 'node:stream';
import { it } from 'node:test';
import { connect } from 'node:tls';
import { startServer } from '../support/https-server.ts';
import { Pki } from '../support/pki.ts';
import { eventually } from '../support/scope.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { requestText } from '../support/wire.ts';

const pki = await Pki.create();
const certificate = await pki.producer('shop');

const expand = (secret: Buffer, label: string, length: number): Buffer => {
  const name = `tls13 ${label}`;
  const info = Buffer.concat([Buffer.of(0, length, name.length), Buffer.from(name), Buffer.of(0, 1)]);
  return createHmac('sha256', secret).update(info).digest().subarray(0, length);
};

/** Returns the record of one KeyUpdate (RFC 8446, section 4.6.3), after `sent` records with the keys of `secret`. */
function keyUpdate(secret: Buffer, sent: number): Buffer {
  const nonce = expand(secret, 'iv', 12);
  nonce.writeUInt8(nonce.readUInt8(11) ^ sent, 11); // RFC 8446, section 5.3.
  const cipher = createCipheriv('aes-128-gcm', expand(secret, 'key', 16), nonce);
  const header = Buffer.of(23, 3, 3, 0, 22);
  cipher.setAAD(header);
  return Buffer.concat([header, cipher.update(Buffer.of(0x18, 0, 0, 1, 0, 0x16)), cipher.final(), cipher.getAuthTag()]);
}

it('a client that sends KeyUpdates is closed with the reason limit, and another one is answered', async () => {
  const clock = new VirtualClock();
  const server = await startServer(pki, {}, { certificate, clock });
  const other = await server.open();
  const tcp = server.tcp();
  const write = (bytes: Buffer, _encoding: BufferEncoding, done: () => void): void => void tcp.write(bytes, done);
  const socket = new Duplex({ read: () => undefined, write });
  tcp.on('data', (bytes) => socket.push(bytes));
  const client = connect({
    ...{ socket, ca: pki.authority.certificate, ...certificate },
    ...{ minVersion: 'TLSv1.3', ciphers: 'TLS_AES_128_GCM_SHA256' },
  });
  client.on('error', () => undefined);
  let secret = Buffer.alloc(0);
  client.on('keylog', (line: Buffer) => {
    const [label, , value = ''] = line.toString().trim().split(' ');
    if (label === 'CLIENT_TRAFFIC_SECRET_0') secret = Buffer.from(value, 'hex');
  });
  const { requests, answer, told } = server;
  await eventually('both are open', () => server.server.connections.length === 2 && secret.length > 0);
  // Requests bring data, however many there were and whatever time has passed.
  other.socket.setNoDelay(true);
  for (let at = 0; at < 20; at += 1) {
    other.write(requestText('GET /before'));
    await eventually('its request is there', () => requests.length > at);
    answer(requests[at]);
  }
  await clock.advance(15_000);
  // What a client has sent before excuses nothing later. The first write is one record.
  client.write(requestText('GET /first', [`X: ${'x'.repeat(10_000)}`]));
  await eventually('its request is there', () => requests.length === 21);
  await clock.advance(100);
  const updates: Buffer[] = [];
  for (let at = 0; at < 2_000; at += 1) {
    updates.push(keyUpdate(secret, at === 0 ? 1 : 0));
    secret = Buffer.from(expand(secret, 'traffic upd', 32));
  }
  tcp.write(Buffer.concat(updates));
  await eventually('it is closed', async () => (await clock.advance(100), told.length === 2));
  assert.deepEqual(told, ['limit', 'closed']);
  other.write(requestText('GET /other'));
  await eventually('its request is there', () => requests.length === 22);
  answer(requests[21], 'other');
  await other.until(/other$/);
});

it('bytes that arrive in many short records count as the memory that they take', async () => {
  const clock = new VirtualClock();
  const held = { producerBytesMax: 200_000, totalBytesMax: 1 << 30, bytesInFlight: () => 0 };
  const { open, requests, answer, told } = await startServer(pki, { held }, { certificate, clock });
  const clients = [await open(), await open(), await open()];
  const asked = async (): Promise<void> => {
    const before = requests.length;
    for (const client of clients) client.write(requestText('GET /'));
    await eventually('the requests are there', () => requests.length === before + clients.length);
  };
  await asked();
  for (const request of requests) answer(request, 'x'.repeat(150_000));
  for (const client of clients) await client.until(/x{150000}$/);
  await clock.advance(100);
  assert.deepEqual(told, [], 'an answer that was read takes no memory');
  await asked();
  await clock.advance(100);
  const [whole, ...others] = clients;
  whole?.write('x'.repeat(1_000));
  for (let at = 0; at < 1_000; at += 1)
    await Promise.all(others.map(({ socket }) => new Promise((sent) => socket.setNoDelay(true).write('x', sent))));
  await eventually('both are closed', async () => (await clock.advance(100), told.length === 4));
  assert.deepEqual([told.toSorted(), whole?.closed], [['closed', 'closed', 'limit', 'limit'], false]);
});
