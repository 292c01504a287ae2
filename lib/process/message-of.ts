/**
 * Returns the message of an error, or the code if the message is empty. It is empty in Node's connection error for a
 * host name with several addresses.
 */
export function messageOf(cause: unknown): string {
  if (!(cause instanceof Error)) return 'unknown error';
  if (cause.message !== '') return cause.message;
  return 'code' in cause ? String(cause.code) : cause.name;
}
