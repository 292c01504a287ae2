// Ends a connection so that the client gets to see our last answer.
import type { Socket } from 'node:net';
import type { Clock } from '../process/clock.ts';

/** How long a connection that we close is still read from, so that the client gets to see our last answer. */
const LINGER_MS = 1_000;
/** How long the client may take before that to take the answers that were written. */
const LAST_WRITE_MS = 10_000;

/**
 * Ends our side, throws away what still comes, and lets go when the client has ended too or a second after our last
 * byte. Without it, closing while the client still sends resets the connection, and a reset can overtake the answer
 * (RFC 9112, section 9.6). A socket lets go by itself once both sides have ended.
 */
export function linger(socket: Socket, clock: Clock): void {
  if (socket.destroyed) return;
  let timer = clock.after(LAST_WRITE_MS, () => socket.destroy());
  socket.once('close', () => timer.close());
  socket.end(() => {
    timer.close();
    timer = clock.after(LINGER_MS, () => socket.destroy());
  });
  socket.resume();
}
