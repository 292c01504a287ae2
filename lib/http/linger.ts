// Closes a connection so that the client can still read our last answer.
import type { Socket } from 'node:net';
import type { Clock } from '../process/clock.ts';

/** The time for which input is discarded after our last byte. */
const LINGER_MS = 1_000;
/** Time limit for the client to read the answers written so far. */
const LAST_WRITE_MS = 10_000;

/**
 * Ends our side, discards further input, and closes the connection when the client ends its side or LINGER_MS after
 * our last byte. Closing while the client is still sending would reset the connection, and the client may see the
 * reset before it reads the answer (RFC 9112, section 9.6).
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
