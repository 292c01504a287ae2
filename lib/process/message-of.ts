/**
 * The message of an error. Node's error for a host name with several addresses has no message, so its code is returned.
 */
export function messageOf(cause: unknown): string {
  if (!(cause instanceof Error)) return 'unknown error';
  if (cause.message !== '') return cause.message;
  return 'code' in cause ? String(cause.code) : cause.name;
}
