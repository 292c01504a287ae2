import { ConnectionTimeoutError, DisconnectsClientError, ErrorReply, SocketClosedUnexpectedlyError } from 'redis';

/** The end of an error that a command of a script received. */
const IN_SCRIPT = /(?<=^(?!ERR ).*| executing the script .*) script: [0-9a-f]{40}, on @user_script:\d+\.$/;

/** An error reply: the command was not run, or was run and refused. */
export class RedisError extends Error {
  override readonly name = 'RedisError';
  /** The first word of the reply (`READONLY`, `NOGROUP`, `ERR` …), which is its stable part. */
  readonly code: string;

  constructor(answer: string) {
    super(answer.replace(IN_SCRIPT, ''));
    this.code = /^[A-Z]+(?= |$)/.exec(answer)?.[0] ?? 'ERR';
  }
}

export const hasCode = (cause: unknown, ...codes: readonly string[]): cause is RedisError =>
  cause instanceof RedisError && codes.includes(cause.code);

/** Returns a handler of rejections that replaces an error reply with `value`. Other causes are thrown. */
export const refusedAs =
  <T>(value: T, isExpected = (_: RedisError): boolean => true) =>
  (cause: unknown): T => {
    if (cause instanceof RedisError && isExpected(cause)) return value;
    throw cause;
  };

/** True if the user may not run a command, also one of a script, or if a key has another type. */
export const isForbidden = (cause: unknown): cause is RedisError =>
  hasCode(cause, 'NOPERM', 'WRONGTYPE') ||
  (hasCode(cause, 'ERR') && /^ERR (The user executing|ACL failure in) /.test(cause.message));

/** True if no entry can be added, because one has the last possible name. */
export const isExhausted = (cause: unknown): cause is RedisError =>
  hasCode(cause, 'ERR') && cause.message.includes('exhausted the last possible ID');

/** True for a reply that tells nothing about other commands. */
export const isOfOneCommand = (cause: unknown): boolean => hasCode(cause, 'ERR') && !isForbidden(cause);

/** No reply arrived in time, so the command may have been run. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
}

/** Converts an error of the package `redis`, if its message would not help an operator. */
export function causeOf(cause: unknown): unknown {
  if (cause instanceof ErrorReply) return new RedisError(cause.message);
  if (cause instanceof SocketClosedUnexpectedlyError) return new Error('the server closed the connection');
  if (cause instanceof DisconnectsClientError) return new Error('the connection is closed');
  if (cause instanceof ConnectionTimeoutError) return new Error('the server does not answer');
  return cause;
}

/** This program must not use the server as it is, and waiting does not help. The message tells an operator why. */
export class QueueRefusal extends Error {
  override readonly name: string = 'QueueRefusal';
}

/** A setting of this program does not match the queue: the number of partitions, or swapped hosts. */
export class SettingRefused extends QueueRefusal {
  override readonly name = 'SettingRefused';
}

/** True if the server refused the password or requires one. */
export const isPasswordRefused = (reason: string): boolean => /^(WRONGPASS|NOAUTH) /.test(reason);

export const queueIsAway = (reason: string): string =>
  isPasswordRefused(reason) ? `the queue refused the password (${reason})` : `the queue does not answer (${reason})`;
