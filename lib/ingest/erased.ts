// The body of an erased event, which keeps only the event's id and type.
//
// It replaces the body in the queue, the warehouse and the quarantine, so the row is kept and the id stays taken.
// Programs recognize an erased body by its bytes, so gateways refuse such a body from a producer.

export const erasedBody = (id: string, type: string | undefined): string => JSON.stringify({ id, type, erased: true });

export function isErased(body: string | Buffer): boolean {
  const end = body.length - ENDING.length;
  if (end < 0) return false;
  // A view of the last bytes would be an object for each event.
  const isCandidate =
    typeof body === 'string' ? body.endsWith(ENDING) : body.compare(END_BYTES, 0, ENDING.length, end) === 0;
  if (!isCandidate) return false;
  const text = body.toString();
  try {
    const { id, type } = JSON.parse(text) as { readonly id: unknown; readonly type?: unknown };
    if (typeof id !== 'string' || (type !== undefined && typeof type !== 'string')) return false;
    return text === erasedBody(id, type);
  } catch {
    return false;
  }
}

const ENDING = ',"erased":true}';
const END_BYTES = Buffer.from(ENDING);

/** Returns `id` and `type` if `body` is a JSON object that has them as strings. Never throws. */
export function namesIn(body: Buffer): { readonly id: string | undefined; readonly type: string | undefined } {
  let value: unknown;
  try {
    value = JSON.parse(body.toString('utf8'));
  } catch {
    // Other writers may add entries with any body.
  }
  const { id, type } = Object(value) as Readonly<Record<string, unknown>>;
  return { id: typeof id === 'string' ? id : undefined, type: typeof type === 'string' ? type : undefined };
}
