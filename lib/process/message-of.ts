/**
 * Returns the message of an error, or the code if the message is empty. It is empty in Node's connection error for a
 * host name with several addresses. The message of a failed handshake is a line of OpenSSL's log, so its reason is
 * returned.
 */
export function messageOf(cause: unknown): string {
  if (!(cause instanceof Error)) return 'unknown error';
  if ('reason' in cause && 'library' in cause && cause.library === 'SSL routines') return String(cause.reason);
  if (cause.message !== '') return cause.message;
  return 'code' in cause ? String(cause.code) : cause.name;
}

const SILENCE = /no answer within|does not answer/;

/** True if `reason` is of a silent server, and so was `before`: calls and connections have different time limits. */
export const isStillSilent = (reason: string, before = ''): boolean => SILENCE.test(reason) && SILENCE.test(before);
