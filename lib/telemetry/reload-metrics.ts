// Metrics about watched files, the same in gateways and consumers.
import type { Counter, Registry } from 'prom-client';
import { Gauge, rareCounter } from './instruments.ts';

export class ReloadMetrics {
  readonly #current = new Map<string, boolean>();
  readonly #reloads: Counter;
  readonly #failures: Counter;

  constructor(registry: Registry) {
    this.#reloads = rareCounter(registry, 'ingest_reloads_total', 'Reloads of watched files that succeeded.', 'kind');
    const refused = 'Changes of watched files that were refused; the last good content stays in use.';
    this.#failures = rareCounter(registry, 'ingest_reload_failures_total', refused, 'kind');
    const inUse =
      '1 while the content of the watched files is in use; 0 after a refused change, until the files are good again.';
    const current = new Gauge(registry, 'ingest_reload_current', inUse);
    current.readEach(() => Array.from(this.#current, ([kind, is]) => ({ labels: { kind }, value: is ? 1 : 0 })));
  }

  /** Returns a function that records whether an attempt to load files of this kind succeeded. */
  of(kind: string): (current: boolean) => void {
    this.#current.set(kind, true);
    for (const counter of [this.#reloads, this.#failures]) counter.inc({ kind }, 0);
    return (current) => {
      this.#current.set(kind, current);
      (current ? this.#reloads : this.#failures).inc({ kind });
    };
  }
}
