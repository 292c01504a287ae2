// One connection of a queue server: commands in, answers out, in the order of the commands.
//
// States: open (AUTH under way: what comes meanwhile waits) → ending → closed.
//
// Invariants: a command is handled only after the peer was admitted and its AUTH decided. Each accepting call gets one
// answer, once all its events are settled. A peer that does not read its answers is not read from either.
//
// Limits: those of command-reader.ts. What does not follow the protocol costs the connection.
import type { Socket } from 'node:net';
import { version } from '../process/program.ts';
import {
  DISPATCHER_ACCEPT,
  DISPATCHER_ACCEPT_NOTES,
  DISPATCHER_FIND,
  DISPATCHER_NAME,
} from '../ingest/dispatcher-commands.ts';
import type { Queue } from '../ingest/queue.ts';
import { CommandReader, type Command } from './command-reader.ts';
import { submitEvents } from './dispatched-events.ts';

/** What a peer may use, until it gives it back. */
export interface Grant {
  readonly queue: Queue;
  release(): void;
}

export interface PeerHost {
  /** The queue of whoever sends no AUTH. */
  readonly anonymous: Grant;
  /** What AUTH gives: a grant, or why there is none. */
  authenticate(user: string | undefined, password: string): Promise<Grant | string>;
  /**
   * What a peer has sent and no command is yet, in bytes: by how much it changed. False: too much, and the peer must
   * go.
   */
  holds(change: number): boolean;
  closed(peer: QueuePeer): void;
  fault(cause: unknown): void;
}

/** The answer to a command, in its place; empty until it is known. */
interface Answer {
  text: string;
}

export class QueuePeer {
  readonly #socket: Socket;
  readonly #host: PeerHost;
  readonly #refusal: string | undefined;
  readonly #reader = new CommandReader();
  /** Oldest first. */
  #answers: Answer[] = [];
  #grant: Grant;
  /** Commands that came behind an AUTH that is not decided yet. */
  #behindAuth: Command[] | undefined;
  #flushing = false;
  #ending = false;

  /** `refusal`: why this peer is not admitted; its first command is answered with that, and is its last. */
  constructor(socket: Socket, host: PeerHost, refusal: string | undefined) {
    this.#socket = socket;
    this.#host = host;
    this.#refusal = refusal;
    this.#grant = host.anonymous;
    socket.on('data', (piece: Buffer) => this.#read(piece));
    socket.on('drain', () => this.#goOn());
    socket.on('error', (cause) => host.fault(cause));
    socket.once('close', () => {
      host.holds(-this.#reader.bytesHeld);
      this.#grant.release();
      host.closed(this);
    });
  }

  /** Closes once every command that has come is answered. */
  end(): void {
    this.#ending = true;
    // What is not read was not taken: its sender sees the connection end.
    this.#socket.pause();
    this.#endIfDone();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #read(piece: Buffer): void {
    if (this.#ending) return;
    const before = this.#reader.bytesHeld;
    try {
      this.#reader.push(piece);
      for (let next = this.#reader.next(); next !== undefined; next = this.#reader.next()) this.#take(next);
    } catch (cause) {
      this.#fail(cause);
    }
    if (!this.#host.holds(this.#reader.bytesHeld - before) && this.#reader.bytesHeld > 0)
      this.#fail(new Error('too many bytes of commands that are not whole'));
  }

  #take(command: Command): void {
    if (this.#behindAuth === undefined) this.#run(command);
    else this.#behindAuth.push(command);
  }

  #run(command: Command): void {
    const { name, parts } = command;
    const answer: Answer = { text: '' };
    this.#answers.push(answer);
    if (this.#refusal !== undefined) {
      this.#say(answer, error(this.#refusal, 'NOPERM'));
      this.end();
      return;
    }
    switch (name) {
      case DISPATCHER_ACCEPT:
        this.#accept(command, 3, answer);
        return;
      case DISPATCHER_ACCEPT_NOTES:
        this.#accept(command, 4, answer);
        return;
      case DISPATCHER_FIND:
        this.#find(command, answer);
        return;
      case 'AUTH':
        this.#authenticate(command, parts, answer);
        return;
      case 'HELLO':
        this.#say(answer, array(['server', DISPATCHER_NAME, 'version', version(), 'proto', '2', 'role', 'master']));
        return;
      case 'CLIENT':
        this.#say(answer, '+OK\r\n');
        return;
      case 'PING':
        this.#say(answer, '+PONG\r\n');
        return;
      case 'SELECT':
        this.#say(answer, error('a dispatcher has no databases: leave the path out of its URI'));
        return;
      default:
        this.#say(answer, error(`a dispatcher does not know this command; gateways reach it by dispatcher://`));
    }
  }

  /** `each`: parts of an event, its id included. */
  #accept(command: Command, each: 3 | 4, answer: Answer): void {
    if (command.parts % each !== 0) throw new Error('an accepting call with a part too few');
    const { queue } = this.#grant;
    if (command.parts === 0) {
      const state = queue.state();
      this.#say(answer, state.available ? '$0\r\n\r\n' : error(state.reason));
    } else submitEvents(command, each === 4, queue, (text) => this.#say(answer, text));
  }

  #find(command: Command, answer: Answer): void {
    const [id, producer] = [command.utf8(1), command.utf8(2)];
    void this.#grant.queue.find(id, producer).then((found) => {
      if (found.kind === 'unavailable') this.#say(answer, error('the queue that would have the event does not answer'));
      else if (found.kind === 'unknown') this.#say(answer, '*-1\r\n');
      else {
        const { acceptedAtMs, body, traceparent } = found.event;
        this.#say(
          answer,
          array([String(acceptedAtMs), body.toString(), ...(traceparent === undefined ? [] : [traceparent])]),
        );
      }
    });
  }

  #authenticate(command: Command, parts: number, answer: Answer): void {
    const user = parts === 1 ? undefined : command.utf8(1);
    const password = command.utf8(parts === 1 ? 1 : 2);
    this.#behindAuth = [];
    this.#socket.pause();
    void this.#host.authenticate(user, password).then((granted) => {
      if (typeof granted === 'string') this.#say(answer, error(granted, 'WRONGPASS'));
      else {
        this.#grant.release();
        this.#grant = granted;
        if (this.#socket.destroyed) granted.release();
        this.#say(answer, '+OK\r\n');
      }
      const waiting = this.#behindAuth ?? [];
      this.#behindAuth = undefined;
      this.#goOn();
      try {
        for (const next of waiting) this.#take(next);
      } catch (cause) {
        this.#fail(cause);
      }
    });
  }

  /** The answer is known; it leaves when those before it have. */
  #say(answer: Answer, text: string): void {
    answer.text = text;
    if (this.#flushing) return;
    this.#flushing = true;
    // Events of several calls are settled by one answer of a queue, one after the other.
    queueMicrotask(() => this.#flush());
  }

  #flush(): void {
    this.#flushing = false;
    let known = 0;
    let text = '';
    for (; known < this.#answers.length; known += 1) {
      const next = this.#answers[known]?.text ?? '';
      if (next === '') break;
      text += next;
    }
    if (known === 0 || this.#socket.destroyed) return;
    this.#answers = this.#answers.slice(known);
    if (!this.#socket.write(text)) this.#socket.pause();
    this.#endIfDone();
  }

  #goOn(): void {
    if (!this.#ending) this.#socket.resume();
  }

  #endIfDone(): void {
    if (!this.#ending || this.#answers.length > 0) return;
    this.#socket.end();
    this.#socket.resume();
  }

  #fail(cause: unknown): void {
    this.#host.fault(cause);
    this.#socket.destroy();
  }
}

const array = (parts: readonly string[]): string =>
  `*${parts.length}\r\n${parts.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`).join('')}`;

/** An error has one line. */
const error = (text: string, code = 'ERR'): string => `-${code} ${text.replaceAll(/[\r\n]+/g, ' ')}\r\n`;
