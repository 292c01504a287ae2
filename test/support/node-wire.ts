// A connection's half in memory, for the side of node:http (lib/http/node/side.ts), and requests for it.
import { HandOver } from '../../lib/http/node/hand-over.ts';
import type { HttpRequest, ProtocolFault } from '../../lib/http/request.ts';
import type { ConnectionState, Side, Wire } from '../../lib/http/side.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { SYSTEM } from './system.ts';
import { VirtualClock } from './virtual-clock.ts';

export const GET = 'GET / HTTP/1.1\r\nHost: g\r\n\r\n';

/** How often something has asked for the end of a turn. */
export class CountingClock extends VirtualClock {
  turns = 0;

  override turnEnd(run: () => void): void {
    this.turns += 1;
    super.turnEnd(run);
  }
}

/** The connection's half, in memory: it keeps what node:http does to it. */
export class Recorder implements Wire {
  readonly keepAlive = '';
  readonly clock = SYSTEM.clock;
  state: ConnectionState = 'node';
  writable = true;
  retiring = false;
  /** The client may still be sending behind the last answer. */
  lingers = false;
  written = '';
  readonly requests: HttpRequest[] = [];
  readonly events: string[] = [];
  readonly #onRequest: (request: HttpRequest) => void;
  side: Side | undefined;

  constructor(onRequest: (request: HttpRequest) => void = () => undefined) {
    this.#onRequest = onRequest;
  }

  wake(): void {
    setImmediate(() => this.side?.flush());
  }

  request(request: HttpRequest): void {
    this.requests.push(request);
    this.#onRequest(request);
  }

  mayReadOn(): boolean {
    return true;
  }

  write(text: string | Buffer, _encoding: BufferEncoding, done?: () => void): void {
    this.written += text.toString();
    done?.();
  }

  pause(): void {
    this.events.push('pause');
  }

  resume(): void {}

  stopReading(unread: boolean): void {
    this.lingers ||= unread;
    this.state = 'closing';
    this.side?.stop();
  }

  end(unread: boolean): void {
    this.state = 'closing';
    this.events.push(unread ? 'end, more comes' : 'end');
  }

  sayLast(fault: ProtocolFault): void {
    this.events.push(`last: ${fault}`);
  }

  abort(): void {
    this.events.push('abort');
  }

  prepareHandOver(): void {}
  handOver(): void {}
}

export function adopted(
  onRequest?: (request: HttpRequest) => void,
  idleTimeoutMs = 60_000,
  clock: Clock = SYSTEM.clock,
): Recorder & { readonly side: Side } {
  const wire = new Recorder(onRequest);
  wire.side = new HandOver({ headerBytesMax: 16_384, idleTimeoutMs }, clock).adopt(wire, 0);
  return wire as Recorder & { readonly side: Side };
}

export const answer = (request: HttpRequest, close = false): void => {
  request.respond('id', { status: 200, contentType: 'text/plain', body: 'x' }, close);
};

export const ignored = (): void => undefined;
export const readsBody = (request: HttpRequest): void => {
  request.listener = { aborted: ignored, fault: () => false };
  request.body(100, { bodyGrows: ignored, bodyRead: ignored });
};

/** How many answers have been written. */
export const answers = (wire: Recorder): number => wire.written.match(/HTTP\/1\.1 /g)?.length ?? 0;
/** Lets go on whatever waits for no timer. */
export const passed = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
};
