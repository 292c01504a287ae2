// The text of a registry's metrics: Prometheus' text format, or OpenMetrics 1.0 with exemplars where a scrape prefers
// it.
//
// prom-client's own OpenMetrics renames the registry's counters for good, so one registry cannot serve both formats
// with it.
import type { MetricObject, MetricValue, Registry } from 'prom-client';
import type { Exemplar } from './instruments.ts';

const OPEN_METRICS = 'application/openmetrics-text; version=1.0.0; charset=utf-8';
const UNIT = /_(seconds|bytes)$/;

export async function exposition(
  registry: Registry,
  openMetrics: boolean,
): Promise<{ contentType: string; text: string }> {
  if (!openMetrics) return { contentType: registry.contentType, text: await registry.metrics() };
  const metrics = registry.getMetricsAsArray() as unknown as { get(): Promise<Family> }[];
  // All are read before the first of them is awaited.
  const families = await Promise.all(metrics.map((metric) => metric.get()));
  return { contentType: OPEN_METRICS, text: `${families.map(familyText).join('')}# EOF\n` };
}

/**
 * Whether the field Accept of a scrape names version 1.0.0, or none, and gives it at least the weight of text/plain
 * (RFC 9110, section 12.5.1).
 */
export function prefersOpenMetrics(accept: string | undefined): boolean {
  let [openMetrics, plain] = [0, 0];
  for (const range of accept?.toLowerCase().split(',') ?? []) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim());
    const parameter = (name: string): string | undefined =>
      parameters.find((text) => text.startsWith(`${name}=`))?.slice(name.length + 1);
    const weight = Number(parameter('q') ?? 1);
    if (type === 'application/openmetrics-text' && (parameter('version') ?? '1.0.0') === '1.0.0')
      openMetrics = Math.max(openMetrics, weight);
    else if (type === 'text/plain') plain = Math.max(plain, weight);
  }
  return openMetrics > 0 && openMetrics >= plain;
}

type Family = MetricObject & {
  readonly values: (MetricValue<string> & { readonly metricName?: string; readonly exemplar?: Exemplar | null })[];
};

function familyText({ name, help, type, values }: Family): string {
  const kind = String(type);
  const family = kind === 'counter' ? name.replace(/_total$/, '') : name;
  const unit = UNIT.exec(family)?.[1];
  const lines = [
    `# TYPE ${family} ${kind}`,
    ...(unit === undefined ? [] : [`# UNIT ${family} ${unit}`]),
    `# HELP ${family} ${escaped(help)}`,
  ];
  for (const { metricName = name, labels, value, exemplar } of values) {
    const sample = `${kind === 'counter' ? `${family}_total` : metricName}${labelsText(labels)} ${numberText(value)}`;
    if (exemplar === undefined || exemplar === null) lines.push(sample);
    else {
      const { labelSet, value: observed, timestamp } = exemplar;
      lines.push(`${sample} # ${labelsText(labelSet)} ${observed} ${timestamp.toFixed(3)}`);
    }
  }
  return `${lines.join('\n')}\n`;
}

function labelsText(labels: Readonly<Partial<Record<string, string | number>>>): string {
  const pairs = Object.entries(labels).map(([name, value = '']) => `${name}="${escaped(labelText(name, value))}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

/** A bucket's bound is a float number also where it is whole: `1.0`. */
const labelText = (name: string, value: string | number): string =>
  name === 'le' && Number.isInteger(value) ? `${value}.0` : String(value);

const numberText = (value: number): string => {
  if (Number.isFinite(value)) return String(value);
  return Number.isNaN(value) ? 'NaN' : `${value > 0 ? '+' : '-'}Inf`;
};

const escaped = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');
