// One producer that takes what it can get, and ten others beside it.
import { describe, it } from 'node:test';
import { event } from '../support/gateway.ts';
import { eventually } from '../support/scope.ts';
import { postText } from '../support/wire.ts';
import { assertOthersAccepted, BODY_BYTES, greedyConnections } from './fair-admission.ts';

describe('ten producers at 50 events a second each are accepted while another one', () => {
  it('announces bodies on 400 connections and sends nothing of them', async () => {
    const connections = await greedyConnections();
    for (const connection of connections) connection.write(postText('', [`Content-Length: ${BODY_BYTES}`]));
    await eventually('some were refused', () => connections.some(({ received }) => received.includes('503')));
    await assertOthersAccepted('announced');
    for (const { socket } of connections) socket.destroy();
  });

  it('sends chunks on 400 connections and no end', async () => {
    const connections = await greedyConnections();
    const chunk = `${(BODY_BYTES - 1).toString(16)}\r\n${' '.repeat(BODY_BYTES - 1)}\r\n`;
    for (const connection of connections) connection.write(`${postText('', ['Transfer-Encoding: chunked'])}${chunk}`);
    await eventually('some were refused', () => connections.some(({ received }) => received.includes('503')));
    await assertOthersAccepted('chunked');
    for (const { socket } of connections) socket.destroy();
  });

  it('saturates 400 connections with large bodies', async () => {
    const connections = await greedyConnections();
    let sent = 0;
    let refused = 0;
    for (const { socket } of connections) {
      const post = (): void => {
        socket.write(postText(event(`greedy-${(sent += 1)}`, { data: 'x'.repeat(BODY_BYTES - 100) })));
      };
      socket.on('data', (answer: Buffer) => {
        if (answer.includes('HTTP/1.1 503')) refused += 1;
        post();
      });
      post();
    }
    await eventually('some were refused', () => refused > 0);
    await assertOthersAccepted('saturated');
    for (const { socket } of connections) socket.destroy();
  });
});
