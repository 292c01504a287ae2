// Commands and replies. Servers speak RESP2, so a reply has strings, integers, arrays and nulls.

/** Text, or bytes that need not be UTF-8. */
export type Argument = string | Buffer;

/** A client reads a command when it writes it: first `length`, then the arguments. */
export type Command = ArrayLike<Argument>;

export type RedisValue = string | number | null | readonly RedisValue[];

/** A reply whose strings are bytes; only status lines are text. */
export type RedisBytes = Buffer | string | number | null | readonly RedisBytes[];

export interface Sender<Answer> {
  send(command: Command): Promise<Answer>;
}

export type Server = Sender<RedisValue>;

/** Converts a list of alternating names and values. */
export function fieldsOf(list: readonly RedisValue[]): ReadonlyMap<string, RedisValue> {
  const fields = new Map<string, RedisValue>();
  for (let at = 0; at + 1 < list.length; at += 2) fields.set(String(list[at]), list[at + 1] ?? null);
  return fields;
}
