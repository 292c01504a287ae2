// What gateways and dispatchers say to each other, over RESP2 (redis.io/docs/reference/protocol-spec): the names of the
// commands, and one character for each outcome of an event.
//
// Arguments and answers are those of accept.lua and find.lua, without stream and retention. Ids are sent as they are.
// The commands have names and not the digests of scripts, so gateways and dispatchers of two versions work together
// while an installation is upgraded.
import type { Outcome } from './queue.ts';

/** All ids, then the producer and the body of each event; without events it is a probe. */
export const DISPATCHER_ACCEPT = 'INGEST.ACCEPT';
/** The same, with the notes of each event behind its body. */
export const DISPATCHER_ACCEPT_NOTES = 'INGEST.ACCEPT.NOTES';
/** An id and a producer. */
export const DISPATCHER_FIND = 'INGEST.FIND';
/** What a dispatcher calls itself in its answer to HELLO. */
export const DISPATCHER_NAME = 'ingest-dispatcher';

/** The characters that a dispatcher answers with. */
export const OUTCOME_CHARACTERS: Readonly<Record<Outcome, number>> = {
  accepted: 0x30,
  duplicate: 0x31,
  conflict: 0x32,
  differing: 0x33,
  shed: 0x34,
  unavailable: 0x35,
};
