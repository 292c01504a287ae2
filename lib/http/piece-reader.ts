// Reads what comes by a connection, so many pieces of it in a turn of the event loop, and nothing while it may not.
//
// Fact: a client chooses how long its TLS records are, each of them is a piece, and one read of a socket may bring
// 2,900. Choice: a connection that brings many pieces and no whole request rests, and waits in line with the others
// that do.
//
// It reads from the socket for the connection that owns it, and does nothing else with it.
import type { Socket } from 'node:net';
import type { Clock } from '../process/clock.ts';
import { assert } from './assert.ts';

/** How many pieces are read before the connection rests; a request that has come starts again. */
const PIECES_MAX = 256;
/** How many connections that rest go on in one turn of the event loop. */
const READERS_A_TURN = 4;

/** Those that rest, in the order in which they began to; one line for all servers of this process. */
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

  /** `take` gets each piece, and returns true if it completed a request: as many pieces more may be read. */
  constructor(socket: Socket, clock: Clock, take: (piece: Buffer) => boolean) {
    this.#socket = socket;
    this.#clock = clock;
    socket.on('data', (piece: Buffer) => {
      this.#pieces = take(piece) ? 0 : this.#pieces + 1;
      if (this.#pieces >= PIECES_MAX) this.#rest();
    });
    socket.on('error', ignore);
  }

  /** Nothing more is to be read before `resume`. */
  pause(): void {
    this.#paused = true;
    stop(this.#socket);
  }

  resume(): void {
    this.#paused = false;
    if (!this.#rests) start(this.#socket);
  }

  takeTurn(): void {
    assert(this.#rests, 'only a connection that rests takes a turn');
    this.#rests = false;
    this.#pieces = 0;
    if (!this.#paused) start(this.#socket);
  }

  #rest(): void {
    if (this.#rests) return;
    this.#rests = true;
    stop(this.#socket);
    if (line.push(this) === 1) this.#clock.turnEnd(() => giveTurns(this.#clock));
  }
}

interface Handle {
  reading?: boolean;
  readStop(): unknown;
  readStart(): unknown;
}

const handleOf = (socket: Socket): Handle | null | undefined => (socket as { _handle?: Handle | null })._handle;

// Fact: a paused stream is read into until it holds 64 KB, which may be 65,536 pieces, and libuv reads up to 32 times
// in a turn; a stream does not know that its handle was stopped. Choice: the handle is stopped and started with it, in
// the way of net.Socket with `onread`; checked on node 26.10. Effect: 10 connections that wait and bring 40,000 records
// each take 2 MB, not 70 (test/end-to-end/short-records.long.ts).
function stop(socket: Socket): void {
  socket.pause();
  const handle = handleOf(socket);
  if (handle?.reading !== true) return;
  handle.reading = false;
  handle.readStop();
}

function start(socket: Socket): void {
  socket.resume();
  const handle = handleOf(socket);
  if (handle?.reading !== false) return;
  handle.reading = true;
  handle.readStart();
}

const ignore = (): void => undefined; // 'close' follows, and tells.
