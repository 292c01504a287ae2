// The registry that every program's metrics stand in.
import { collectDefaultMetrics, Registry } from 'prom-client';

// Gauges that prom-client names `_total`, which Prometheus keeps for counters (promtool complains about them).
const MISNAMED = ['nodejs_active_resources_total', 'nodejs_active_handles_total', 'nodejs_active_requests_total'];

/** A registry with prom-client's process metrics. */
export function processRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  return registry;
}
