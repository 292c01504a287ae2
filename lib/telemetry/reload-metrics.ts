// Metrics about watched files, the same in gateways and consumers.
import type { Registry } from 'prom-client';
import { CounterFamily, Gauge } from './instruments.ts';

export class ReloadMetrics {
  readonly #current = new Map<string, boolean>();
  readonly #reloads: CounterFamily;
  readonly #failures: CounterFamily;

  constructor(registry: Registry) {
    this.#reloads = new CounterFamily(registry, 'ingest_reloads_total', 'Reloads of watched files that succeeded.');
    const refused = 'Changes of watched files that were refused; the last good content stays in use.';
    this.#failures = new CounterFamily(registry, 'ingest_reload_failures_total', refused);
    const inUse =
      '1 while the content of the watched files is in use; 0 after a refused change, until the files are good again.';
    const current = new Gauge(registry, 'ingest_reload_current', inUse);
    current.readEach(() => Array.from(this.#current, ([kind, is]) => ({ labels: { kind }, value: is ? 1 : 0 })));
  }

  /** Returns a function that records whether an attempt to load files of this kind succeeded. */
  of(kind: string): (current: boolean) => void {
    this.#current.set(kind, true);
    const [reloads, failures] = [this.#reloads.of({ kind }), this.#failures.of({ kind })];
    return (current) => {
      this.#current.set(kind, current);
      (current ? reloads : failures).add();
    };
  }
}
