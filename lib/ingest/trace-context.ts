// The trace context that a producer sends with an event (W3C Trace Context, level 1): kept as it came, where it is one.
//
// Invariant: a context that is not well-formed is ignored, as the recommendation says; the event is accepted without
// it.

export interface TraceContext {
  /** `<version>-<trace id>-<parent id>-<flags>`. */
  readonly traceparent: string;
  readonly tracestate?: string;
}

/** A longer one need not be passed on (section 3.3.1.5). */
const TRACESTATE_CHARACTERS_MAX = 512;
/**
 * Version ff and ids of zeros are invalid; what a later version adds behind the flags is not looked at (section 3.2.4).
 */
const TRACEPARENT =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[\x21-\x7e]{1,64})?$/;
const TRACESTATE = /^[\t\x20-\x7e]+$/;

/** The context that the fields of these names make; undefined where they make none. */
export function traceContext(
  traceparent: string | undefined,
  tracestate: string | undefined,
): TraceContext | undefined {
  if (traceparent === undefined || !TRACEPARENT.test(traceparent)) return undefined;
  if (traceparent.startsWith('00') && traceparent.length !== 55) return undefined;
  const passesOn =
    tracestate !== undefined && tracestate.length <= TRACESTATE_CHARACTERS_MAX && TRACESTATE.test(tracestate);
  return passesOn ? { traceparent, tracestate } : { traceparent };
}

/** Whether the caller records its trace (the flag `sampled`, section 3.2.2.5.1). */
export const isSampled = ({ traceparent }: TraceContext): boolean =>
  (Number.parseInt(traceparent.slice(53, 55), 16) & 1) === 1;
