// A producer's trace context (W3C Trace Context, level 1), passed on unchanged. A malformed context is ignored, as
// the recommendation requires.

export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate?: string;
}

/** Version ff and all-zero ids are invalid. Additions by later versions are ignored (section 3.2.4). */
const TRACEPARENT =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[\x21-\x7e]{1,64})?$/;
/** A longer tracestate may be dropped (section 3.3.1.5). */
const TRACESTATE = /^[\t\x20-\x7e]{1,512}$/;

export function traceContext(traceparent?: string, tracestate?: string): TraceContext | undefined {
  if (traceparent === undefined || !TRACEPARENT.test(traceparent)) return undefined;
  if (traceparent.startsWith('00') && traceparent.length !== 55) return undefined;
  return tracestate !== undefined && TRACESTATE.test(tracestate) ? { traceparent, tracestate } : { traceparent };
}

export const isSampled = ({ traceparent }: TraceContext): boolean =>
  (Number.parseInt(traceparent.slice(53, 55), 16) & 1) === 1;
