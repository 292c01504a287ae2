// The time limits of the connections that are read directly. node:http keeps those of the others.
//
// Fact: a timer for each connection that is set anew with each request costs more than the requests' own book-keeping.
// Choice: all connections are looked at a few times a second, so a limit is kept to within that.
import type { Connection } from './connection.ts';

/** In milliseconds: from a head's first byte (or the handshake) to its last, from a head to its body's last byte, between requests. */
export interface TimeLimits {
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly idleTimeoutMs: number;
}

/** What of a connection has taken too long. */
export type Overdue = 'head' | 'body' | 'next request';

/** What an idle connection gets beyond what it was told, so that a request on its way meets no closed door (as in node). */
const IDLE_SLACK_MS = 1_000;

/** Also notes when the connection was last found with something new. `now` is of `performance.now()`. */
export function whatIsOverdue(connection: Connection<unknown>, now: number, limits: TimeLimits): Overdue | undefined {
  const { direct, socket } = connection;
  if (direct === undefined || connection.broken) return undefined;
  if (direct.arrivingSinceMs !== undefined)
    return now - direct.arrivingSinceMs >= limits.requestTimeoutMs ? 'body' : undefined;
  const unread = socket.writableLength;
  if (direct.requests !== connection.quietRequests || unread !== connection.quietUnread || direct.owing) {
    connection.quietRequests = direct.requests;
    connection.quietUnread = unread;
    connection.quietSinceMs = now;
  }
  if (direct.owing) return undefined; // Its answers first.
  if (unread > 0)
    return now - connection.quietSinceMs >= limits.idleTimeoutMs + IDLE_SLACK_MS ? 'next request' : undefined;
  if (direct.unfinishedSinceMs !== undefined)
    return now - direct.unfinishedSinceMs >= limits.headersTimeoutMs ? 'head' : undefined;
  const quietMs = now - connection.quietSinceMs;
  if (direct.requests === 0) return quietMs >= limits.headersTimeoutMs ? 'head' : undefined;
  return quietMs >= limits.idleTimeoutMs + IDLE_SLACK_MS ? 'next request' : undefined;
}
