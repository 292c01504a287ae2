// What a billion events cost: CPU time from the gateway to the warehouse, memory of Redis for 24 hours, and money.
import type { MetricName } from '../metrics.ts';
import type { CaseSummary } from '../summary.ts';

/** US dollars; round figures of what large providers ask for on demand. */
export const PRICE = { coreHour: 0.04, gibibyteHour: 0.005 } as const;

const EVENTS = 1e9;
const RETENTION_HOURS = 24;

/** One line, where the cases that it needs were run: saturation, landing and queue-memory. */
export function costLine(summaries: readonly CaseSummary[]): string | undefined {
  const figure = (name: string, label: string, metric: MetricName): number | undefined =>
    summaries.find((summary) => summary.name === name)?.labels.find((each) => each.label === label)?.figures[metric]
      ?.median;
  const accepting = figure('saturation', 'gateway', 'totalUs');
  const landing = figure('landing', 'backlog', 'totalUs');
  const bytes = figure('queue-memory', 'gateway’s queue', 'bytesEach');
  if (accepting === undefined || landing === undefined || bytes === undefined) return undefined;
  const cpuSeconds = ((accepting + landing) * EVENTS) / 1e6;
  const gibibyteHours = ((bytes * EVENTS) / 2 ** 30) * RETENTION_HOURS;
  const dollars = (cpuSeconds / 3600) * PRICE.coreHour + gibibyteHours * PRICE.gibibyteHour;
  const whole = (value: number): string => Math.round(value).toLocaleString('en-US');
  return (
    `a billion events of 300 bytes: ${whole(cpuSeconds)} CPU seconds (${whole(accepting)} µs to accept and ` +
    `${whole(landing)} µs to land each), ${whole((bytes * EVENTS) / 2 ** 30)} GiB of Redis for 24 hours, ` +
    `${whole(dollars)} $ at ${PRICE.coreHour} $ a core-hour and ${PRICE.gibibyteHour} $ a GiB-hour`
  );
}
