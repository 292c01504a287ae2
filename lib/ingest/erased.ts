// What is left of an event that an operator erased: its id and type, and that it was erased.
//
// It replaces the body, in queue, warehouse and quarantine alike, so that the id's row stays and the id stays taken. It
// is recognised by its bytes alone, so gateways refuse a producer's event of exactly this form.

/** The body of an erased event. `type` is undefined where what was erased had none. */
export const erasedBody = (id: string, type: string | undefined): string => JSON.stringify({ id, type, erased: true });

/** Whether a body is that of an erased event. */
export function isErased(body: string | Buffer): boolean {
  const isCandidate =
    typeof body === 'string' ? body.endsWith(ENDING) : body.subarray(-ENDING.length).equals(END_BYTES);
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

/** The members `id` and `type` of bytes that may be no event, each where it is a string. */
export function namesIn(body: Buffer): { readonly id: string | undefined; readonly type: string | undefined } {
  const none = { id: undefined, type: undefined };
  try {
    const value: unknown = JSON.parse(body.toString('utf8'));
    if (typeof value !== 'object' || value === null) return none;
    const text = (name: string): string | undefined => {
      const member = (value as Record<string, unknown>)[name];
      return typeof member === 'string' ? member : undefined;
    };
    return { id: text('id'), type: text('type') };
  } catch {
    return none;
  }
}
