// Reads the input of a connection, a limited number of pieces in each turn of the event loop.
//
// Fact: each TLS record is a piece, the client chooses its length, and one read of a socket may return 2,900. Choice:
// a connection that sends many pieces without completing a request rests until its next turn.
import type { Socket } from 'node:net';
import type { Clock } from '../process/clock.ts';
import { assert } from './assert.ts';

/** A connection rests after this many pieces that complete no request. */
const PIECES_MAX = 256;
/** Number of resting connections that continue in one turn of the event loop. */
const READERS_A_TURN = 4;

/** Resting connections, in the order in which they began to rest. All servers of the process share this line. */
let line: PieceReader[] = [];

function giveTurns(clock: Clock): void {
  const now = line.slice(0, READERS_A_TURN);
  line = line.slice(READERS_A_TURN);
  if (line.length > 0) clock.turnEnd(() => giveTurns(clock));
  for (const reader of now) reader.takeTurn();
}

export class PieceReader {
  readonly #socket: Socket;
  readonly #clock: Clock;
  #pieces = 0;
  #paused = false;
  #rests = false;

  /** `take` receives each piece and returns true if the piece completed a request. */
  constructor(socket: Socket, clock: Clock, take: (piece: Buffer) => boolean) {
    this.#socket = socket;
    this.#clock = clock;
    socket.on('data', (piece: Buffer) => {
      this.#pieces = take(piece) ? 0 : this.#pieces + 1;
      if (this.#pieces >= PIECES_MAX) this.#rest();
    });
    socket.on('error', ignore);
  }

  pause(): void {
    this.#paused = true;
    setReading(this.#socket, false);
  }

  resume(): void {
    this.#paused = false;
    if (!this.#rests) setReading(this.#socket, true);
  }

  takeTurn(): void {
    assert(this.#rests, 'only a connection that rests takes a turn');
    this.#rests = false;
    this.#pieces = 0;
    if (!this.#paused) setReading(this.#socket, true);
  }

  #rest(): void {
    if (this.#rests) return;
    this.#rests = true;
    setReading(this.#socket, false);
    if (line.push(this) === 1) this.#clock.turnEnd(() => giveTurns(this.#clock));
  }
}

interface Handle {
  reading?: boolean;
  readStop(): unknown;
  readStart(): unknown;
}

// Fact: node keeps reading into a paused stream until it has 64 KB, which may be 65,536 pieces. Choice: stop and
// start the handle together with the stream, as net.Socket does with `onread` (checked on node 26.10). Effect: 10
// paused connections with 40,000 records each take 2 MB instead of 70 (test/end-to-end/short-records.long.ts).
function setReading(socket: Socket, reading: boolean): void {
  if (reading) socket.resume();
  else socket.pause();
  const { _handle: handle } = socket as { _handle?: Handle | null };
  if (handle?.reading !== !reading) return;
  handle.reading = reading;
  if (reading) handle.readStart();
  else handle.readStop();
}

const ignore = (): void => undefined; // A 'close' event follows.
