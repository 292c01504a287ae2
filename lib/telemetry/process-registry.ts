// The metrics that every daemon exports.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { BUILD } from '../process/program.ts';
import { Gauge } from './instruments.ts';

// These gauges are named like counters, which promtool reports as a mistake.
const MISNAMED = ['nodejs_active_resources_total', 'nodejs_active_handles_total', 'nodejs_active_requests_total'];

/** The interval of prom-client's own monitor, whose values are not used. */
const NEVER_MS = 2 ** 31 - 1;

/** Returns the answer of `/metrics`. All who wait for it share one Buffer. */
export const exposition = async (registry: Registry) => ({
  status: 200,
  contentType: registry.contentType,
  body: [Buffer.from(await registry.metrics())],
});

export function processRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: NEVER_MS });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  eventLoopMetrics(registry);
  const help = 'Always 1, with the version and revision of the program and the version of Node as labels.';
  new Gauge(registry, 'ingest_build_info', help).readEach(() => [{ labels: BUILD, value: 1 }]);
  return registry;
}

/**
 * Fact: prom-client measures the delays of the event loop with a timer of 10 ms, which takes 0.4 % of a core in an idle
 * process. Choice: node measures each turn of the event loop, without a timer. Effect: `BENCH_CASES=whole make bench`.
 */
function eventLoopMetrics(registry: Registry): void {
  const turns = monitorEventLoopDelay({ samplePerIteration: true });
  turns.enable();
  const valueOf = (name: string): number =>
    name.startsWith('p') ? turns.percentile(Number(name.slice(1))) : turns[name as 'min' | 'max' | 'mean' | 'stddev'];
  for (const name of ['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99']) {
    const metric = `nodejs_eventloop_lag_${name}_seconds`;
    registry.removeSingleMetric(metric);
    const help = `Time that the event loop needed for a turn since the last scrape: ${name}.`;
    new Gauge(registry, metric, help).read(() => {
      const seconds = turns.count === 0 ? 0 : valueOf(name) / 1e9;
      if (name === 'p99') turns.reset();
      return seconds;
    });
  }
}
