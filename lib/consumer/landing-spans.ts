// The spans of landing, for events whose producers record traces. Names and attributes follow OpenTelemetry's
// semantic conventions for messaging.
import { isSampled } from '../ingest/trace-context.ts';
import type { Tracing } from '../telemetry/tracing.ts';
import type { Entered } from './classify.ts';

/** Records the spans of one transaction. Times are Unix times in milliseconds. */
export type LandingSpans = (entries: readonly Entered[], startMs: number, endMs: number) => void;

export const landingSpans =
  (
    tracing: Tracing,
    { system, destination, group }: Readonly<Record<'system' | 'destination' | 'group', string>>,
  ): LandingSpans =>
  (entries, startMs, endMs) => {
    for (const entry of entries) {
      const { traceparent, tracestate } = entry;
      if (traceparent === undefined || !isSampled({ traceparent })) continue;
      const error = 'code' in entry ? entry.code : undefined;
      tracing.record({
        name: `process ${destination}`,
        kind: 'consumer',
        parent: { traceparent, tracestate },
        startMs,
        endMs,
        attributes: {
          'messaging.system': system,
          'messaging.destination.name': destination,
          'messaging.consumer.group.name': group,
          'messaging.operation.name': 'process',
          'messaging.operation.type': 'process',
          'messaging.message.body.size': entry.body.length,
          'ingest.producer': entry.producer,
          ...(entry.id === undefined ? {} : { 'messaging.message.id': entry.id }),
          ...(error === undefined ? {} : { 'error.type': error }),
        },
        error,
      });
    }
  };
