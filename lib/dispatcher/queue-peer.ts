// One connection of a queue server: commands in, answers out, in the order of the commands.
//
// States: open → ending → closed. While an AUTH is decided, and while answers wait in large numbers or are not taken,
// nothing is read from an open peer.
//
// Invariants: a command is handled only after the AUTH before it was decided. Each accepting call gets one answer, once
// all its events are settled. A peer whose AUTH is refused, or that does not follow the protocol, gets an error and
// closed.
//
// Limits: those of command-reader.ts; ANSWERS_MAX and LOOK_UPS_MAX for what a peer may ask for before it takes the
// answers; FIRST_COMMAND_MS and NEXT_COMMAND_MS between two commands.
import type { Socket } from 'node:net';
import { linger } from '../http/linger.ts';
import {
  DISPATCHER_ACCEPT,
  DISPATCHER_ACCEPT_NOTES,
  DISPATCHER_FIND,
  DISPATCHER_NAME,
  OUTCOME_CHARACTERS,
} from '../ingest/dispatcher-commands.ts';
import type { EventNotes, Queue } from '../ingest/queue.ts';
import type { Clock } from '../process/clock.ts';
import { version } from '../process/program.ts';
import { CommandReader, ProtocolFault, type Command } from './command-reader.ts';

/** Answers that a peer may have outstanding: more than a gateway has calls in flight. */
const ANSWERS_MAX = 16_384;
/** Look-ups among those: an answer may be a whole event, and a gateway has two at a time. */
const LOOK_UPS_MAX = 16;
/** How long a new peer may take for its first command; gateways send it with the end of the handshake. */
const FIRST_COMMAND_MS = 5_000;
/** How long any further command may take to come in whole. Gateways probe every 400 ms. */
const NEXT_COMMAND_MS = 30_000;

/** What a peer may use, until it gives it back. */
export interface Grant {
  readonly queue: Queue;
  release(): void;
}

export interface PeerHost {
  /** The queue of peers that send no AUTH. */
  readonly anonymous: Grant;
  /** What AUTH gives: a grant, or why there is none. */
  authenticate(user: string | undefined, password: string): Promise<Grant | string>;
  /** How much memory the unfinished command of a peer has now, in bytes. It may close peers. */
  holds(peer: QueuePeer, bytes: number): void;
  /** Its first command has come. */
  known(peer: QueuePeer): void;
  closed(peer: QueuePeer): void;
  fault(cause: unknown): void;
  readonly clock: Clock;
}

/** The answer to a command, in its place; empty until it is known. */
interface Answer {
  text: string;
  readonly isLookUp: boolean;
}

export class QueuePeer {
  /** Whose connection it is: by its certificate or, without TLS, its address. */
  readonly client: string;
  /** What its unfinished command takes, as it was last counted; bytes. */
  bytesHeld = 0;
  readonly socket: Socket;
  readonly #host: PeerHost;
  readonly #reader = new CommandReader();
  /** Oldest first. */
  #answers: Answer[] = [];
  #lookUps = 0;
  #grant: Grant;
  #state: 'open' | 'ending' | 'closed' = 'open';
  #authenticating = false;
  #flushing = false;
  #isKnown = false;
  /** When the last command was taken; at first, when the peer came. */
  #commandMs: number;

  constructor(socket: Socket, client: string, host: PeerHost) {
    this.socket = socket;
    this.client = client;
    this.#host = host;
    this.#grant = host.anonymous;
    this.#commandMs = host.clock.ms();
    socket.on('data', (piece: Buffer) => {
      if (this.#state !== 'open') return;
      this.#reader.push(piece);
      this.#goOn();
    });
    socket.on('drain', () => this.#goOn());
    socket.on('error', (cause) => host.fault(cause));
    socket.once('close', () => {
      this.#state = 'closed';
      host.holds(this, 0);
      this.#grant.release();
      host.closed(this);
    });
  }

  /** Closes once every command that was taken is answered. */
  end(): void {
    if (this.#state !== 'open') return;
    this.#state = 'ending';
    // What is not read was not taken: its sender sees the connection end.
    this.socket.pause();
    this.#endIfDone();
  }

  destroy(): void {
    this.#state = 'closed';
    this.socket.destroy();
  }

  /** Whether its next command is overdue. */
  get isOverdue(): boolean {
    return this.#host.clock.ms() - this.#commandMs >= (this.#isKnown ? NEXT_COMMAND_MS : FIRST_COMMAND_MS);
  }

  /** Takes the commands that are whole, as long as there is room for their answers. */
  #goOn(): void {
    if (this.#state !== 'open') return;
    try {
      while (this.#mayTake()) {
        const command = this.#reader.next();
        if (command === undefined) break;
        this.#commandMs = this.#host.clock.ms();
        if (!this.#isKnown) {
          this.#isKnown = true;
          this.#host.known(this);
        }
        this.#run(command);
      }
    } catch (cause) {
      this.#fail(this.#expectAnswer(false), cause);
      return;
    }
    this.#host.holds(this, this.#reader.bytesHeld);
    if (this.#mayTake()) this.socket.resume();
    else this.socket.pause();
  }

  #mayTake(): boolean {
    return (
      this.#state === 'open' &&
      !this.#authenticating &&
      this.#answers.length < ANSWERS_MAX &&
      !this.socket.writableNeedDrain
    );
  }

  #run(command: Command): void {
    const answer = this.#expectAnswer(command.name === DISPATCHER_FIND);
    try {
      this.#handle(command, answer);
    } catch (cause) {
      this.#fail(answer, cause);
    }
  }

  #expectAnswer(isLookUp: boolean): Answer {
    const answer: Answer = { text: '', isLookUp };
    this.#answers.push(answer);
    return answer;
  }

  #handle(command: Command, answer: Answer): void {
    const { name, parts } = command;
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
    if (command.parts % each !== 0) throw new ProtocolFault('an accepting call with a part too few');
    const { queue } = this.#grant;
    if (command.parts === 0) {
      const state = queue.state();
      this.#say(answer, state.available ? '$0\r\n\r\n' : error(state.reason));
      return;
    }
    const count = command.parts / each;
    const verdicts = Buffer.allocUnsafe(count);
    let missing = count;
    for (let at = 0; at < count; at += 1) {
      const event = 1 + count + at * (each - 1);
      queue.submit({
        id: command.utf8(1 + at),
        producer: command.utf8(event),
        text: command.utf8(event + 1),
        notes: each === 4 ? notesOf(command.utf8(event + 2)) : undefined,
        settle: (outcome) => {
          verdicts[at] = OUTCOME_CHARACTERS[outcome];
          missing -= 1;
          if (missing === 0) this.#say(answer, `$${count}\r\n${verdicts.toString('latin1')}\r\n`);
        },
      });
    }
  }

  #find(command: Command, answer: Answer): void {
    const [id, producer] = [command.utf8(1), command.utf8(2)];
    this.#lookUps += 1;
    if (this.#lookUps > LOOK_UPS_MAX) {
      this.#say(answer, error('too many look-ups at a time'));
      return;
    }
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
    this.#authenticating = true;
    void this.#host.authenticate(user, password).then((granted) => {
      this.#authenticating = false;
      if (typeof granted === 'string') {
        this.#host.fault(new Error(granted));
        this.#sayLast(answer, granted, 'WRONGPASS');
        return;
      }
      if (this.#state === 'closed') {
        granted.release();
        return;
      }
      this.#grant.release();
      this.#grant = granted;
      this.#say(answer, '+OK\r\n');
      this.#goOn();
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

  /** What came cannot be followed. */
  #fail(answer: Answer, cause: unknown): void {
    this.#host.fault(cause);
    const why = cause instanceof ProtocolFault ? `Protocol error: ${cause.message}` : 'the dispatcher failed on this';
    this.#sayLast(answer, why, 'ERR');
  }

  /** This is the last answer: no further command is taken. */
  #sayLast(answer: Answer, text: string, code: string): void {
    if (this.#state === 'closed') return;
    this.#state = 'ending';
    this.socket.pause();
    this.#host.holds(this, 0);
    this.#say(answer, error(text, code));
  }

  #flush(): void {
    this.#flushing = false;
    let known = 0;
    let text = '';
    for (; known < this.#answers.length; known += 1) {
      const next = this.#answers[known];
      if (next === undefined || next.text === '') break;
      text += next.text;
      if (next.isLookUp) this.#lookUps -= 1;
    }
    if (known === 0 || this.#state === 'closed') return;
    this.#answers = this.#answers.slice(known);
    this.socket.write(text);
    if (this.#state === 'open') this.#goOn();
    this.#endIfDone();
  }

  #endIfDone(): void {
    if (this.#state === 'ending' && this.#answers.length === 0) linger(this.socket, this.#host.clock);
  }
}

/** Names and values by turns, each ended by a line feed (accept.lua); undefined where there are none. */
function notesOf(members: string): EventNotes | undefined {
  if (members === '') return undefined;
  const lines = members.split('\n');
  return Object.fromEntries(
    Array.from({ length: Math.floor(lines.length / 2) }, (_, at) => [lines[2 * at] ?? '', lines[2 * at + 1] ?? '']),
  );
}

const array = (parts: readonly string[]): string =>
  `*${parts.length}\r\n${parts.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`).join('')}`;

/** An error has one line. */
export const error = (text: string, code = 'ERR'): string => `-${code} ${text.replaceAll(/[\r\n]+/g, ' ')}\r\n`;
