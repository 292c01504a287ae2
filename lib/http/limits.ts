// The limits of one connection, in time and in what it may have outstanding, the same for both readers. The verdict is
// pure: a snapshot goes in, and nothing is read but the arguments.
import type { Side } from './side.ts';

/** In milliseconds: from a head's first byte to its last, from there to the request's last byte, between requests. */
export interface TimeLimits {
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly idleTimeoutMs: number;
}

/** What a connection is waiting for. All times are of `Clock.ms()`. */
export interface Snapshot {
  /** The first byte of the head that is arriving came then; undefined where none is arriving. */
  readonly headSinceMs: number | undefined;
  /** The request whose body is arriving began then; undefined where none is arriving. */
  readonly bodySinceMs: number | undefined;
  /** The next answer is owed and not made yet. */
  readonly owing: boolean;
  /** Bytes of answers that the client has not taken yet. */
  readonly unreadBytes: number;
  /** Since then no request has come and no answer was taken. */
  readonly quietSinceMs: number;
  /** How many requests have come. */
  readonly requests: number;
  /** The client showed a certificate of an authority of ours. */
  readonly certified: boolean;
}

/** What of a connection has taken too long; `request`: none has come, or none has come since the last. */
export type Overdue = 'head' | 'body' | 'request';

/**
 * What an idle connection gets beyond what it was told, so that a request in flight does not hit a closed connection
 * (as in node).
 */
const IDLE_SLACK_MS = 1_000;

/** What is overdue at `nowMs`. A client that does not take its answers counts as idle. */
export function whatIsOverdue(snapshot: Snapshot, nowMs: number, limits: TimeLimits): Overdue | undefined {
  const { headSinceMs, bodySinceMs, quietSinceMs } = snapshot;
  if (bodySinceMs !== undefined) return nowMs - bodySinceMs >= limits.requestTimeoutMs ? 'body' : undefined;
  if (snapshot.owing) return undefined; // The client waits for us.
  const idle = nowMs - quietSinceMs >= limits.idleTimeoutMs + IDLE_SLACK_MS;
  if (snapshot.unreadBytes > 0) return idle ? 'request' : undefined;
  if (headSinceMs !== undefined) return nowMs - headSinceMs >= limits.headersTimeoutMs ? 'head' : undefined;
  // A stranger gets less time for its first request, and no answer: a client would take it for the answer to what it
  // sends next.
  const isStranger = snapshot.requests === 0 && !snapshot.certified;
  return idle || (isStranger && nowMs - quietSinceMs >= limits.headersTimeoutMs) ? 'request' : undefined;
}

/** Since when a connection has been quiet, and what of it takes too long. */
export class IdleWatch {
  /** How much had come and was unread when that was last found to have changed, and when that was. */
  #requests = 0;
  #unreadBytes = 0;
  #quietSinceMs: number;

  constructor(nowMs: number) {
    this.#quietSinceMs = nowMs;
  }

  /** To be called a few times a second. `unreadBytes`: of answers that the client has not taken. */
  overdue(side: Side, unreadBytes: number, certified: boolean, nowMs: number, limits: TimeLimits): Overdue | undefined {
    const { requests, owing, headSinceMs, bodySinceMs } = side;
    if (requests !== this.#requests || unreadBytes !== this.#unreadBytes || owing) {
      this.#requests = requests;
      this.#unreadBytes = unreadBytes;
      this.#quietSinceMs = nowMs;
    }
    const quietSinceMs = this.#quietSinceMs;
    const snapshot = { headSinceMs, bodySinceMs, owing, unreadBytes, quietSinceMs, requests, certified };
    return whatIsOverdue(snapshot, nowMs, limits);
  }
}

/** How many requests of one connection may wait for their answers; the next one stays unread. */
export const REQUESTS_OWED_MAX = 256;

/** How many bytes of answers one connection may have outstanding, made or expected; the next request stays unread. */
export const BYTES_OWED_MAX = 262_144;

/**
 * How many requests may be read and answered in one turn of the event loop, besides one of each connection.
 *
 * Fact: what has come by 100 connections may be 25,600 such requests; read in one turn they kept the event loop for two
 * seconds and took 220 MB until their answers left. Choice: a few hundred, and the rest in the turns that follow.
 */
export const ANSWERED_A_TURN_MAX = 256;

/**
 * How large an answer may be that is not made yet, in bytes. The answer to an event is short. That to a look-up may be
 * a whole event, or all metrics: one at a time.
 */
export const expectedAnswerBytes = (method: string): number => (method === 'POST' ? 1_024 : BYTES_OWED_MAX);

/** Answers leave in pieces of about so many characters, the next one when the client has taken the last. */
export const PIECE_CHARACTERS = 65_536;
