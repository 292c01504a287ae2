// The metrics that every daemon exports.
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { revision, version } from '../process/program.ts';

// These gauges are named like counters, which promtool reports as a mistake.
const MISNAMED = ['nodejs_active_resources_total', 'nodejs_active_handles_total', 'nodejs_active_requests_total'];

export async function exposition(registry: Registry): Promise<{ readonly contentType: string; readonly text: string }> {
  return { contentType: registry.contentType, text: await registry.metrics() };
}

export function processRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  const build = new Gauge({
    name: 'ingest_build_info',
    help: 'Always 1, with the version and revision of the program and the version of Node as labels.',
    labelNames: ['version', 'revision', 'node'],
    registers: [registry],
  });
  build.set({ version: version(), revision: revision(), node: process.version }, 1);
  return registry;
}
