// How talking to Redis fails, by class: what the server answered (RedisError), no answer in time (NoAnswer), no
// connection to send on (NoConnection), and a server that this program must not work with (QueueRefusal).

/** An error that the server answered with: the command was not run, or was run and refused. */
export class RedisError extends Error {
  override readonly name = 'RedisError';
  /** The first word of the server's answer (`READONLY`, `NOGROUP`, `ERR` …): the part of it that is an interface. */
  readonly code: string;

  constructor(answer: string) {
    super(answer);
    this.code = /^[A-Z]+(?= |$)/.exec(answer)?.[0] ?? 'ERR';
  }
}

/** The server says that the stream, or its group, is not there. */
export const isNoGroup = (cause: unknown): boolean => cause instanceof RedisError && cause.code === 'NOGROUP';

/** There was no answer in time: whether the command was run is unknown. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
}

/** There is no connection that commands may be sent on; nothing was sent. */
export class NoConnection extends Error {
  override readonly name = 'NoConnection';
}

/** The server rewrites its append-only file, and this program must not work with it before that has ended. */
export class RewriteRunning extends Error {
  override readonly name = 'RewriteRunning';
}

/**
 * The server is there, and this program must not work with it as it is: waiting does not help. `message` tells an
 * operator why.
 */
export class QueueRefusal extends Error {
  override readonly name: string = 'QueueRefusal';
}

/** A setting of this program does not fit the queue: another number of partitions, or swapped hosts. */
export class SettingRefused extends QueueRefusal {
  override readonly name = 'SettingRefused';
}

/** Whether `reason` is a server's that does not take this program's password, or asks for one (Redis, ACL). */
export const isPasswordRefused = (reason: string): boolean => /^(WRONGPASS|NOAUTH) /.test(reason);

/** A queue without a connection, as a clause. `reason` says why, e.g. a connection's `lastError`. */
export const queueIsAway = (reason: string): string =>
  isPasswordRefused(reason) ? `the queue refused the password (${reason})` : `the queue does not answer (${reason})`;
