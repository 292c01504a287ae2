// A connection in memory for lib/http/node/side.ts, and requests to send on it.
import { HandOver } from '../../lib/http/node/hand-over.ts';
import { NodeRequest } from '../../lib/http/node/request.ts';
import type { NodeSide, Wire } from '../../lib/http/node/side.ts';
import type { HttpRequest, ProtocolFault } from '../../lib/http/request.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { SYSTEM } from './system.ts';
import { VirtualClock } from './virtual-clock.ts';

export const GET = 'GET / HTTP/1.1\r\nHost: g\r\n\r\n';

export class CountingClock extends VirtualClock {
  turns = 0;

  override turnEnd(run: () => void): void {
    this.turns += 1;
    super.turnEnd(run);
  }
}

export class Recorder implements Wire {
  readonly clock = SYSTEM.clock;
  reading = true;
  writable = true;
  retiring = false;
  /** True if the client may still be sending after the last answer. */
  lingers = false;
  written = '';
  readonly requests: HttpRequest[] = [];
  readonly events: string[] = [];
  readonly #onRequest: (request: HttpRequest) => void;
  side: NodeSide | undefined;

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
    this.reading = false;
    this.side?.stop();
  }

  end(unread: boolean): void {
    this.reading = false;
    this.events.push(unread ? 'end, more comes' : 'end');
  }

  sayLast(fault: ProtocolFault): void {
    this.events.push(`last: ${fault}`);
  }

  abort(): void {
    this.events.push('abort');
  }
}

export function adopted(
  onRequest?: (request: HttpRequest) => void,
  idleTimeoutMs = 60_000,
  clock: Clock = SYSTEM.clock,
): Recorder & { readonly side: NodeSide } {
  const wire = new Recorder(onRequest);
  wire.side = new HandOver({ headerBytesMax: 16_384, idleTimeoutMs }, clock).adopt(wire, 0);
  return wire as Recorder & { readonly side: NodeSide };
}

export const answer = (request: HttpRequest, close = false): void => {
  if (request instanceof NodeRequest)
    request.respond('id', { status: 200, contentType: 'text/plain', body: 'x' }, close);
};

export const ignored = (): void => undefined;
export const readsBody = (request: HttpRequest): void => {
  request.listener = { aborted: ignored, fault: () => false };
  request.receive(100, { bodyGrows: ignored, bodyRead: ignored });
};

export const answers = (wire: Recorder): number => wire.written.match(/HTTP\/1\.1 /g)?.length ?? 0;
/** Waits until everything that does not need a timer has run. */
export const passed = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
};
