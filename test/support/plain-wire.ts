// A connection's half in memory, for the own reader (lib/http/plain/side.ts), and requests for it.
import { PlainSide } from '../../lib/http/plain/side.ts';
import type { HttpRequest, ProtocolFault } from '../../lib/http/request.ts';
import type { ConnectionState, Wire } from '../../lib/http/side.ts';
import { SYSTEM } from './system.ts';

export const get = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: g\r\n\r\n`;
export const post = (target: string, body: string, announced = body.length): string =>
  `POST ${target} HTTP/1.1\r\nHost: g\r\nContent-Length: ${announced}\r\n\r\n${body}`;

/** The connection's half, in memory. `onRequest` handles what comes; where it is none, nobody answers yet. */
export class WireRecorder implements Wire {
  readonly keepAlive = '';
  readonly clock = SYSTEM.clock;
  readonly side = new PlainSide(this);
  readonly requests: HttpRequest[] = [];
  readonly events: string[] = [];
  state: ConnectionState = 'plain';
  writable = true;
  retiring = false;
  written = '';
  readsOn = true;
  paused = false;
  wakes = 0;
  readonly #onRequest: (request: HttpRequest) => void;

  constructor(onRequest: (request: HttpRequest) => void = () => undefined) {
    this.#onRequest = onRequest;
  }

  wake(): void {
    this.wakes += 1;
  }

  request(request: HttpRequest): void {
    this.requests.push(request);
    this.#onRequest(request);
  }

  mayReadOn(): boolean {
    return this.readsOn;
  }

  write(text: string | Buffer, encoding: BufferEncoding): void {
    this.written += typeof text === 'string' ? text : `<${text.toString(encoding)}>`;
  }

  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
  }

  stopReading(unread: boolean): void {
    this.events.push(unread ? 'stop reading, more comes' : 'stop reading');
    this.state = 'closing';
    this.side.stop();
  }

  end(unread: boolean): void {
    this.events.push(unread ? 'end, more comes' : 'end');
    this.state = 'closing';
  }

  sayLast(fault: ProtocolFault): void {
    this.events.push(`last: ${fault}`);
    this.state = 'closing';
  }

  abort(): void {
    this.events.push('abort');
  }

  prepareHandOver(): void {
    this.state = 'handing over';
  }

  handOver(rest: Buffer): void {
    this.events.push(`hand over ${rest.toString('latin1')}`);
    this.state = 'node';
  }

  feed(text: string): void {
    this.side.feed(Buffer.from(text, 'latin1'));
  }

  get targets(): string[] {
    return this.requests.map(({ head }) => head.target);
  }
}

export const answer = (request: HttpRequest | undefined, close = false, body = ''): void =>
  void request?.respond('id', { status: 200, contentType: 'text/plain', body: `${request.head.target}${body}` }, close);
/** Reads the body of up to `bytesMax`, and says of it what comes. */
export function reading(request: HttpRequest, bytesMax = 100): string[] {
  const said: string[] = [];
  request.listener = {
    aborted: () => said.push('aborted'),
    fault: (fault) => {
      said.push(fault);
      return request.respond('id', { status: 408, contentType: 'text/plain', body: fault }, true);
    },
  };
  request.body(bytesMax, {
    bodyGrows: () => undefined,
    bodyRead: (body) => {
      said.push(body === 'too large' ? body : `read ${body.toString()}`);
      if (body !== 'too large') answer(request);
    },
  });
  return said;
}
/** What of each answer is its own: the body. */
export const bodies = ({ written }: WireRecorder): string[] => written.split(/HTTP\/1\.1 [^]*?\r\n\r\n/).slice(1);
