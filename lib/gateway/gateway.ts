// The gateway: the routes of its API, its server, and its shutdown. bin passes in the queue and the warehouse.
import { problem } from '../ingest/errors.ts';
import type { AddressInfo } from 'node:net';
import type { Queue } from '../ingest/queue.ts';
import type { Warehouse } from '../ingest/warehouse.ts';
import type { Connection } from '../http/connection.ts';
import type { HttpRequest } from '../http/request.ts';
import { atIntervals, processRoutes, type ProcessState } from '../http/process-endpoints.ts';
import { lastResponse, requestIdFrom } from '../http/respond.ts';
import { route, Router, type Route, type RouteMatch } from '../http/router.ts';
import { HttpServer } from '../http/server.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import type { Log } from '../process/log.ts';
import { exposition } from '../telemetry/process-registry.ts';
import type { GatewayMetrics } from './metrics.ts';
import type { TlsMaterial } from '../identity/tls-material.ts';
import { acceptEvent, type AcceptEventOptions } from './accept-event.ts';
import { Admission } from './admission.ts';
import { DECODING_TURNS } from './content-coding.ts';
import { DEFECTS, type Answering } from './answers.ts';
import { Authority, type ClientContext } from '../identity/authority.ts';
import { HEADER_BYTES_MAX, type GatewayConfig } from './config.ts';
import { Exchange, headFault, type ExchangeContext } from './exchange.ts';
import { findEvent, LOOK_UP_TURNS, type FindEventOptions } from './find-event.ts';
import { ADDRESSES_NAMED_MAX, RefusalLog } from './refusal-log.ts';
import { producerOf } from '../identity/producer-identity.ts';
import { refusals, type ProducerChecks } from './producer-checks.ts';
import { ProducerTurns } from './producer-slots.ts';
import type { Producers } from './producers-file.ts';
import { Quotas } from './quotas.ts';
import type { RequestSpans } from './request-spans.ts';
import { NO_ROUTE, RefusalMeter, RouteMeter } from './request-meter.ts';
import type { TokenVerifier } from '../identity/token-verifier.ts';

interface Services {
  readonly accepting: AcceptEventOptions;
  readonly finding: FindEventOptions;
}
type RouteAnswer = (services: Services, exchange: Exchange, id: string) => Answering;

/** The API. The process endpoints (`processRoutes`) are the other routes, unless they have an address of their own. */
// prettier-ignore
const ROUTES: readonly (readonly [method: string, path: string, answer: RouteAnswer])[] = [
  ['POST', '/events',      ({ accepting }, exchange)   => acceptEvent(accepting, exchange)],
  ['GET',  '/events/{id}', ({ finding }, exchange, id) => findEvent(finding, exchange, id)],
];

export interface GatewayParts {
  readonly config: GatewayConfig;
  readonly system: ClockAndRandom;
  readonly identity: { readonly material: TlsMaterial; readonly verifier: TokenVerifier | undefined };
  readonly queue: Queue;
  readonly warehouse: Pick<Warehouse, 'find'> | undefined;
  readonly producers: Producers;
  readonly telemetry: GatewayTelemetry;
}

export interface GatewayTelemetry {
  readonly log: Log;
  readonly metrics: GatewayMetrics;
  /** `undefined` disables spans. */
  readonly spans: RequestSpans | undefined;
}

type Handler = (exchange: Exchange, parameter: string) => Answering;

export class Gateway {
  readonly #authority: Authority;
  readonly #server: HttpServer<ClientContext>;
  readonly #router: Router<Handler>;
  readonly #context: ExchangeContext;
  readonly #meters: ReadonlyMap<Route<Handler>, RouteMeter>;
  readonly #noRoute: RouteMeter;
  readonly #refusalLog: RefusalLog;
  readonly #metrics: ProcessState['metrics'];
  readonly #queue: Queue;
  readonly #quotas: Quotas;
  #listening = false;
  #draining = false;
  #material: TlsMaterial;

  constructor(parts: GatewayParts) {
    const { config, system, queue, warehouse, producers } = parts;
    const { clock } = system;
    const quotas = new Quotas(producers, config.producerRateMax, clock);
    this.#quotas = quotas;
    const { material, verifier } = parts.identity;
    const { log, metrics, spans } = parts.telemetry;
    this.#material = material;
    this.#authority = new Authority({
      clock,
      audience: config.audience,
      trust: material.trust,
      verifier,
      tokenRequired: config.tokenRequired,
      grants: (producer) => quotas.grants(producer, config.audience),
    });
    const admission = new Admission(config.inFlightMax, config.inFlightBytesMax);
    this.#queue = queue;
    this.#showGauges(metrics, admission);
    this.#metrics = atIntervals(() => exposition(metrics.registry), clock);
    this.#refusalLog = new RefusalLog(log, clock);
    this.#context = {
      ...system,
      admission,
      refusals: new RefusalMeter(metrics, this.#refusalLog),
      spans,
      open: 0,
      log,
      // Checked once, so that an accepted request costs no call at level `info`.
      logsAnswers: log.isLevelEnabled('debug'),
    };
    const checks: ProducerChecks = {
      authority: this.#authority,
      refusal: refusals(config.audience, verifier !== undefined),
      quotas,
    };
    const accepting: AcceptEventOptions = {
      clock,
      queue,
      checks,
      admission,
      decoding: new ProducerTurns({ ...DECODING_TURNS, waitMs: config.requestTimeoutMs }, clock),
      metrics,
      events: config,
      spans,
    };
    const finding: FindEventOptions = { queue, warehouse, checks, turns: new ProducerTurns(LOOK_UP_TURNS, clock) };

    const events = ROUTES.map(([method, path, answer]) =>
      route<Handler>(path, { [method]: (exchange, id) => answer({ accepting, finding }, exchange, id) }),
    );
    const routes = [...events, ...(config.adminOnly ? [] : processRoutes<Handler>(this.state, clock))];
    this.#router = new Router(routes);
    this.#meters = new Map(routes.map((one) => [one, new RouteMeter(metrics, one.name, clock)]));
    this.#noRoute = new RouteMeter(metrics, NO_ROUTE, clock);

    this.#server = this.#makeServer(parts, admission);
  }

  #makeServer({ config, system, identity, telemetry }: GatewayParts, admission: Admission): HttpServer<ClientContext> {
    const { clock, random } = system;
    const totalBytesMax = config.inFlightBytesMax;
    const held = { producerBytesMax: totalBytesMax / 4, totalBytesMax, bytesInFlight: () => admission.bytes };
    return new HttpServer(
      identity.material.context,
      { ...config, headerBytesMax: HEADER_BYTES_MAX, held },
      {
        context: this.#authority.context,
        draining: () => this.#draining,
        arrivedMs: () => telemetry.metrics.stalls.arrivedMs(),
        request: (connection, request) => this.#handle(connection, request),
        protocolFault: (fault, connection, sentId) => {
          const requestId = requestIdFrom(sentId, random);
          const answer = headFault(this.#context, this.#noRoute, fault, requestId, connection);
          return lastResponse(requestId, answer, clock);
        },
        plainHttp: (sentId) => lastResponse(requestIdFrom(sentId, random), PLAIN_HTTP, clock),
        producerOf: ({ latest }) => (latest?.verdict.kind === 'producer' ? latest.verdict.producer : undefined),
        closed: this.#context.logsAnswers ? (connection) => this.#closed(connection) : undefined,
        bug: (cause, { address }) =>
          this.#context.log.error({ err: cause, address }, 'a connection failed and was closed'),
        connectionFailure: (reason, address) => {
          telemetry.metrics.handshakes.inc({ reason });
          this.#context.log.debug({ reason, address }, 'TLS handshake failed');
          this.#refusalLog.handshakeFailed(reason, address);
        },
      },
      clock,
    );
  }

  #showGauges(metrics: GatewayMetrics, admission: Admission): void {
    const queue = this.#queue;
    metrics.eventsInFlight.read(() => admission.events);
    metrics.queueAvailable.read(() => (queue.state().available ? 1 : 0));
    metrics.queueUp.readEach(() =>
      queue.states().map(({ available }, partition) => ({ labels: { partition }, value: available ? 1 : 0 })),
    );
    metrics.connections.read(() => this.#server.connections.length);
    metrics.stalls.setConnections(() => this.#server.hasConnections);
    metrics.certificateExpiry.readEach(() =>
      this.#material.expiry.map(({ file, atMs }) => ({
        labels: { file },
        value: Math.round((atMs - this.#context.clock.epochMs()) / 1000),
      })),
    );
  }

  /** The state that the process endpoints report, both on this server and on a separate address. */
  get state(): ProcessState {
    return {
      draining: () => this.#draining,
      unready: () => {
        const state = this.#queue.state();
        if (!state.available) return state.reason;
        return this.#listening ? undefined : 'not listening yet';
      },
      unavailable: () =>
        new Map(
          this.#queue.states().flatMap((state, partition) => (state.available ? [] : [[partition, state.reason]])),
        ),
      metrics: this.#metrics,
    };
  }

  /** Number of requests that are not answered yet. */
  get openRequests(): number {
    return this.#context.open;
  }

  /** Resolves to the bound address. Rejects with the system's error. */
  async listen(host: string, port: number, reusePort = false): Promise<AddressInfo> {
    const bound = await this.#server.listen(host, port, reusePort);
    this.#listening = true;
    return bound;
  }

  /** Uses new TLS material and closes the connections of clients that are no longer trusted. */
  async replaceTls(material: TlsMaterial): Promise<void> {
    this.#material = material;
    this.#server.replaceTls(material.context);
    const closed = await this.#authority.replaceTrust(material.trust, () => this.#server.connections);
    if (closed.length === 0) return;
    const addresses = [...new Set(closed.map(({ address }) => address))].slice(0, ADDRESSES_NAMED_MAX);
    this.#context.log.warn(
      { connections: closed.length, addresses },
      'closed connections of clients that are no longer trusted',
    );
  }

  /** Applies a changed producers file. */
  replaceProducers(producers: Producers): void {
    this.#quotas.replace(producers);
    this.forgetVerdicts();
  }

  /** Makes the gateway judge all producers again. */
  forgetVerdicts(): void {
    this.#authority.forget();
  }

  /** Turns readiness off. From now on, answers close their connections. */
  beginStop(): void {
    this.#draining = true;
  }

  async drain(): Promise<void> {
    this.#draining = true;
    await this.#server.drain();
    this.#refusalLog.close();
  }

  destroy(): void {
    this.#server.destroy();
  }

  #handle(connection: Connection<ClientContext>, request: HttpRequest): void {
    const match = this.#router.find(request.head.target);
    const meter = match === undefined ? this.#noRoute : (this.#meters.get(match.route) ?? this.#noRoute);
    const exchange = new Exchange(this.#context, connection, request, meter);
    try {
      exchange.answer(this.#answer(exchange, match));
    } catch (cause) {
      exchange.bug(cause);
    }
  }

  #answer(exchange: Exchange, match: RouteMatch<Handler> | undefined): Answering {
    const request = exchange.request.head;
    if (request.defect !== undefined) return DEFECTS[request.defect];
    if (match === undefined) return problem('routeNotFound', 'there is nothing at this path');
    const { methods, allow } = match.route;
    const handler = methods.get(request.method);
    if (handler === undefined) return problem('methodNotAllowed', `expected ${allow}`, { headers: ['Allow', allow] });
    return handler(exchange, match.parameter);
  }

  #closed({ address, context: { latest } }: Connection<ClientContext>): void {
    this.#context.log.debug({ address, producer: latest && producerOf(latest.verdict) }, 'connection closed');
  }
}

const PLAIN_HTTP = problem('invalidEvent', 'this port expects TLS: send the request to its https URL');
