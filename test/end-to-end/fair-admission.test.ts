// The short form of fair-admission.long.ts.
import { describe, it } from 'node:test';
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
});
