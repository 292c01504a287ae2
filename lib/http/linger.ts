// Ends a connection in a way that lets the client read our last answer.
import type { Socket } from 'node:net';
import type { Clock } from '../process/clock.ts';

/** The time to discard input after our last byte. */
const LINGER_MS = 1_000;
/** The time that the client has to read the answers written before. */
const LAST_WRITE_MS = 10_000;

/**
 * Ends our side, discards further input, and closes when the client has ended too or LINGER_MS after our last byte.
 * Closing while the client still sends would reset the connection, and a reset can overtake the answer (RFC 9112,
 * section 9.6).
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
