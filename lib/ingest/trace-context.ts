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
const TRACESTATE_MAX = 512;
const MEMBERS_MAX = 32;
const KEY = '[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13}';
const MEMBER = new RegExp(`^(${KEY})=[ -+--<>-~]{0,255}[!-+--<>-~]$`);

/** Empty members are valid. A key may occur once (section 3.3.1). */
function isTracestate(text: string): boolean {
  if (text.length > TRACESTATE_MAX) return false;
  const members = text.split(',').map((one) => one.replace(/^[\t ]+|[\t ]+$/g, ''));
  const keys = members.flatMap((one) => (one === '' ? [] : (MEMBER.exec(one)?.[1] ?? '')));
  return keys.length > 0 && keys.length <= MEMBERS_MAX && !keys.includes('') && new Set(keys).size === keys.length;
}

export function traceContext(traceparent?: string, tracestate?: string): TraceContext | undefined {
  if (traceparent === undefined || !TRACEPARENT.test(traceparent)) return undefined;
  if (traceparent.startsWith('00') && traceparent.length !== 55) return undefined;
  return tracestate !== undefined && isTracestate(tracestate) ? { traceparent, tracestate } : { traceparent };
}

export const isSampled = ({ traceparent }: TraceContext): boolean =>
  (Number.parseInt(traceparent.slice(53, 55), 16) & 1) === 1;
