/**
 * What failed, for a line of the log or an answer. Node's error for a name with several addresses has no message but a
 * code.
 */
export function messageOf(cause: unknown): string {
  if (!(cause instanceof Error)) return 'unknown error';
  if (cause.message !== '') return cause.message;
  return 'code' in cause ? String(cause.code) : cause.name;
}
