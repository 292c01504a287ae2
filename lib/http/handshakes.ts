// When TLS handshakes begin, and what they may cost.
//
// Fact: OpenSSL reads up to 100 KB of certificates before node reports anything. 98 that sign each other take 150 to
// 270 ms of CPU time, and small ones stay in memory, 20 to 35 bytes for each of theirs. Choice: a client that sends
// more than HANDSHAKE_BYTES_MAX is disconnected, and the CPU time of a slow turn is charged to the addresses whose
// handshakes went on in it: their next handshakes wait for a hundred times as long, and begin one after the other. A
// chain of more than LONG_BYTES is charged for its length, too: 270 a second of 60 small certificates took 510 MB.
import type { Clock } from '../process/clock.ts';
import type { Connection } from './connection.ts';
import { requestIdIn } from './request.ts';
import { CALL_COST, Turns } from './turns.ts';

/** The type of the record that begins a handshake. */
const TLS_RECORD = 0x16;
/** Real certificate chains have 2 to 6 KB. */
export const HANDSHAKE_BYTES_MAX = 16_384;
/** Node reads a connection in pieces of this size, so the last piece of a handshake may contain requests. */
const READ_BYTES = 16_384;
/** Bytes of TCP for each byte of a request, without those in very short TLS records. */
const RECORDS_FACTOR = 1.25;
// Fact: a handshake takes 1 to 2 ms of CPU time, and node accepts one connection in each turn of the event loop, so
// 2,300 handshakes delayed a new connection by 4.3 s. Choice: a few handshakes begin in a turn, and one in 10 ms while
// connections arrive. Effect: a connection waits for the acceptance of those before it, 0.1 ms each, and for a few
// handshakes (test/http/server.test.ts), or for those of its own address.
const HANDSHAKES_A_TURN = 4;
const HANDSHAKE_INTERVAL_MS = 10;
/** CPU time of a turn, and of each step of a handshake in it, that is charged to nobody. */
const [SLOW_TURN_MS, STEP_MS] = [15, 5];
/** A client that has sent less cannot have made a turn slow. */
export const USUAL_BYTES = 4_096;
const [WAIT_FACTOR, WAIT_MS_MAX] = [100, 60_000];
const [LONG_BYTES, LONG_MS_PER_BYTE] = [8_192, 1 / 400];

type Client = Pick<
  Connection<unknown>,
  'tcp' | 'socket' | 'address' | 'phase' | 'enter' | 'fail' | 'helloBytes' | 'certificateBytes' | 'plainRequestId'
>;

export class Handshakes {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #turns: Turns;
  /** The handshakes that were running when the latest turn ended, and the bytes received by then. */
  readonly #running = new Map<Client, number>();
  /** When the next handshake of an address may begin, and those that wait for it. */
  readonly #slow = new Map<string, { untilMs: number; readonly waiting: Set<() => unknown> }>();
  #hasArrived = false;
  #beganMs = 0;
  /** The CPU time of this thread when the latest turn ended. */
  #cpuMs = 0;

  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#turns = new Turns(clock, () => this.#budget());
  }

  /** While connections arrive, fewer handshakes begin. */
  arrived(): void {
    this.#hasArrived = true;
  }

  /** Calls `begin` once the client has sent its first bytes, in its address's turn. */
  add(connection: Client, begin: () => void): void {
    const { tcp } = connection;
    let helloBytes = 0;
    tcp.on('readable', () => {
      // The client ended its side, perhaps while its handshake waited for a turn.
      if (tcp.readableLength === helloBytes) return void tcp.destroy();
      if (tcp.readableLength > HANDSHAKE_BYTES_MAX) return connection.fail('handshake_size');
      if (helloBytes === 0) this.#later(connection, begin);
      helloBytes = tcp.readableLength;
    });
  }

  #later(connection: Client, begin: () => void): void {
    connection.enter('turn');
    this.#turns.later(connection.address, () => this.#begin(connection, begin));
  }

  #begin(connection: Client, begin: () => void, isNext = false): boolean {
    const { tcp, address } = connection;
    if (tcp.destroyed) return false;
    const slow = this.#slow.get(address);
    if (slow !== undefined && !isNext) {
      const next = (): boolean => this.#begin(connection, begin, true);
      slow.waiting.add(next);
      // Unlike a wait for the server's turn, this one has a time limit.
      connection.enter('hello', this.#timeoutMs);
      tcp.once('close', () => slow.waiting.delete(next));
      return false;
    }
    connection.enter('handshake');
    connection.helloBytes = tcp.bytesRead;
    tcp.removeAllListeners('readable');
    const hello = tcp.read() as Buffer;
    tcp.unshift(hello);
    if (hello[0] !== TLS_RECORD) connection.plainRequestId = requestIdIn(hello.toString('latin1'));
    if (this.#running.size === 0) this.#watch();
    this.#running.set(connection, tcp.bytesRead);
    begin();
    return true;
  }

  /** Called when the handshake is done, perhaps one of several in the turn. Returns false if it is too long. */
  secured(connection: Client): boolean {
    const bytes = connection.tcp.bytesRead - connection.helloBytes;
    if (bytes <= HANDSHAKE_BYTES_MAX / 2 || this.#turnMs() < 2 * SLOW_TURN_MS)
      return bytes <= HANDSHAKE_BYTES_MAX + READ_BYTES;
    // The same certificates may be on their way in the address's other handshakes.
    for (const other of this.#running.keys())
      if (other.address === connection.address && other.phase === 'handshake' && other !== connection)
        other.fail('limit');
    return bytes <= HANDSHAKE_BYTES_MAX + READ_BYTES;
  }

  /** Lets one more handshake of each slow address begin. */
  check(nowMs: number): void {
    for (const [address, slow] of this.#slow) {
      if (nowMs < slow.untilMs) continue;
      const [next] = slow.waiting;
      if (next === undefined) this.#slow.delete(address);
      else slow.waiting.delete(next);
      next?.();
    }
  }

  #turnMs(): number {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1_000 - this.#cpuMs;
  }

  #watch(): void {
    this.#cpuMs += this.#turnMs();
    this.#clock.nextTurnEnd(this.#turnEnd);
  }

  readonly #turnEnd = (): void => {
    const turnMs = this.#turnMs();
    let steps = 0;
    const suspects: Client[] = [];
    for (const [connection, bytesBefore] of this.#running) {
      const { tcp, socket, phase, helloBytes } = connection;
      const requestBytes = socket === tcp ? 0 : RECORDS_FACTOR * socket.bytesRead;
      connection.certificateBytes = Math.max(0, tcp.bytesRead - helloBytes - requestBytes);
      if (connection.certificateBytes > HANDSHAKE_BYTES_MAX) connection.fail('handshake_size');
      if (phase === 'handshake' && !tcp.destroyed) this.#running.set(connection, tcp.bytesRead);
      else this.#end(connection);
      if (tcp.bytesRead === bytesBefore) continue;
      steps += 1;
      if (connection.certificateBytes > USUAL_BYTES) suspects.push(connection);
    }
    const slowMs = turnMs - SLOW_TURN_MS - STEP_MS * steps;
    const sum = suspects.reduce((bytes, { certificateBytes }) => bytes + certificateBytes, 0);
    for (const { address, certificateBytes } of slowMs > 0 ? suspects : [])
      this.#charge(address, (slowMs * certificateBytes) / sum);
    if (this.#running.size > 0) this.#watch();
  };

  #end(connection: Client): void {
    this.#running.delete(connection);
    const { address, certificateBytes } = connection;
    if (certificateBytes > LONG_BYTES) this.#charge(address, (certificateBytes - LONG_BYTES) * LONG_MS_PER_BYTE);
  }

  #charge(address: string, cpuMs: number): void {
    const nowMs = this.#clock.ms();
    const slow = this.#slow.get(address) ?? { untilMs: nowMs, waiting: new Set<() => unknown>() };
    slow.untilMs = Math.min(Math.max(nowMs, slow.untilMs) + WAIT_FACTOR * cpuMs, nowMs + WAIT_MS_MAX);
    this.#slow.set(address, slow);
  }

  #budget(): number {
    const nowMs = this.#clock.ms();
    const hasArrived = this.#hasArrived;
    this.#hasArrived = false;
    if (hasArrived && nowMs - this.#beganMs < HANDSHAKE_INTERVAL_MS) return 0;
    this.#beganMs = nowMs;
    return CALL_COST * (hasArrived ? 1 : HANDSHAKES_A_TURN);
  }
}
