// One exchange without a connection below it: a request that a test answers for, and what it is answered.
import { Exchange, type ExchangeContext } from '../../lib/gateway/exchange.ts';
import { gatewayMetrics } from '../../lib/gateway/metrics.ts';
import { RefusalMeter, RouteMeter } from '../../lib/gateway/request-meter.ts';
import { RefusalLog } from '../../lib/gateway/refusal-log.ts';
import type { Connection } from '../../lib/http/connection.ts';
import type { BodyTaker, HttpRequest, RequestHead, RequestListener } from '../../lib/http/request.ts';
import type { Answer } from '../../lib/http/respond.ts';
import type { ClientContext } from '../../lib/identity/authority.ts';
import type { Verdict } from '../../lib/identity/producer-identity.ts';
import { ERROR_CODES } from '../../lib/ingest/errors.ts';
import { createLog } from '../../lib/process/log.ts';
import { SYSTEM } from './system.ts';
import { VirtualClock } from './virtual-clock.ts';

const HEAD: RequestHead = {
  method: 'POST',
  target: '/events',
  defect: undefined,
  fieldCount: 2,
  contentType: 'application/json',
  contentEncoding: undefined,
  contentLength: undefined,
  authorization: undefined,
  accept: undefined,
  cloudEventFields: undefined,
  traceparent: undefined,
  tracestate: undefined,
  requestId: 'mine',
};

export class FakeRequest implements HttpRequest {
  readonly head: RequestHead;
  listener: RequestListener | undefined;
  latest = true;
  gone = false;
  /** How much of it is still to come. */
  restBytes = 0;
  /** Who asked for its body, and for how much of it. */
  taker: BodyTaker | undefined;
  bytesMax: number | undefined;
  readonly answers: { readonly answer: Answer; readonly close: boolean }[] = [];

  constructor(head: Partial<RequestHead>) {
    this.head = { ...HEAD, ...head };
  }

  restMayExceed(bytes: number): boolean {
    return this.restBytes > bytes;
  }

  body(bytesMax: number, taker: BodyTaker): void {
    this.bytesMax = bytesMax;
    this.taker = taker;
  }

  respond(_requestId: string, answer: Answer, close: boolean): boolean {
    this.answers.push({ answer, close });
    return true;
  }

  get statuses(): readonly number[] {
    return this.answers.map(({ answer }) => answer.status);
  }
}

export const SHOP: Verdict = { kind: 'producer', producer: 'shop', untilMs: Number.POSITIVE_INFINITY };

/** An exchange of the producer `shop` in virtual time. `known`: what its connection says to becoming known. */
export function exchanging(
  head: Partial<RequestHead> = {},
  more: Partial<ExchangeContext> & { readonly holder?: string; readonly known?: boolean } = {},
) {
  const clock = new VirtualClock();
  const metrics = gatewayMetrics(ERROR_CODES, [], clock);
  const bugs: unknown[] = [];
  const context: ExchangeContext = {
    clock,
    random: SYSTEM.random,
    metrics,
    refusals: new RefusalMeter(metrics, new RefusalLog(createLog('test', 'error'), clock)),
    spans: undefined,
    draining: () => false,
    log: undefined,
    bug: (_, cause) => void bugs.push(cause),
    ...more,
  };
  const asked: string[] = [];
  const connection = {
    holder: more.holder ?? 'shop',
    address: '10.0.0.1',
    clientCertificate: undefined,
    context: { judged: { byToken: false, token: undefined, verdict: SHOP } },
    know: (producer: string) => asked.push(producer) > 0 && (more.known ?? true),
  } as unknown as Connection<ClientContext>;
  const request = new FakeRequest(head);
  const exchange = new Exchange(context, connection, request, new RouteMeter(metrics, '/events', clock));
  /** How many requests were counted under this status. */
  const counted = (status: number): number =>
    metrics.requests.counter({ method: request.head.method, route: '/events', status }).value;
  return { clock, metrics, bugs, asked, context, request, exchange, counted };
}
