// Counts requests: by route, method and status, by error code, and how long they took.
//
// Fact: a family's cell is found by a key that is made of its labels, 1.4 % of a request's time in a profile. Choice:
// each route keeps its cells, and the one that it counted in last at hand.
import { CATALOGUE, ERROR_CODES, type Refusal } from '../ingest/errors.ts';
import type { Cell, Distribution } from '../telemetry/instruments.ts';
import type { GatewayMetrics } from '../telemetry/metrics.ts';

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'none']);

/** The label of a request whose head could not be read, and of one whose path is nobody's. */
export const NO_ROUTE = 'none';

export class RouteMeter {
  readonly #metrics: GatewayMetrics;
  readonly #route: string;
  readonly #durations: Distribution;
  readonly #cells = new Map<string, Cell>();
  #lastMethod = '';
  #lastStatus = 0;
  #lastCell: Cell = { value: 0 };

  constructor(metrics: GatewayMetrics, route: string) {
    this.#metrics = metrics;
    this.#route = route;
    this.#durations = metrics.durations.distribution({ route });
  }

  /** One request ended. `startMs` is when its head had come, by `performance.now()`. */
  ended(method: string, status: number, startMs: number): void {
    if (method !== this.#lastMethod || status !== this.#lastStatus) {
      this.#lastCell = this.#cell(METHODS.has(method) ? method : 'other', status);
      this.#lastMethod = method;
      this.#lastStatus = status;
    }
    this.#lastCell.value += 1;
    this.#durations.observe((performance.now() - startMs) / 1000);
  }

  #cell(method: string, status: number): Cell {
    const key = `${method} ${status}`;
    let cell = this.#cells.get(key);
    if (cell === undefined) {
      cell = this.#metrics.requests.cell({ method, route: this.#route, status });
      this.#cells.set(key, cell);
    }
    return cell;
  }
}

export class RefusalMeter {
  readonly #cells: ReadonlyMap<string, Cell>;
  readonly #shed: Cell;

  constructor(metrics: GatewayMetrics) {
    this.#shed = metrics.shed;
    this.#cells = new Map(ERROR_CODES.map((code) => [code, metrics.errors.cell({ code })]));
  }

  refused(refusal: Refusal): void {
    const cell = this.#cells.get(CATALOGUE[refusal].code);
    if (cell !== undefined) cell.value += 1;
    if (refusal === 'queueOverloaded') this.#shed.value += 1;
  }
}
