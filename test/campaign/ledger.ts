// What was sent, and what was answered: every try of every event, with its times.

export interface Try {
  readonly number: number;
  readonly variant: number;
  readonly producer: Producer;
  readonly gateway: string;
  readonly sentMs: number;
  /** When the answer came, or was given up. */
  readonly doneMs: number;
  /** Undefined: no answer came, so nobody knows whether the event was taken. */
  readonly answer: Told | undefined;
  /** Clock.moves when the try began, and when it ended. */
  readonly clockMoves: readonly [before: number, after: number];
}

/** An answer, as far as the promise goes. */
export interface Told {
  readonly status: number;
  readonly code: string | undefined;
  readonly duplicate: boolean;
  readonly differs: boolean;
}

/** Whose certificate a try carries. Every event is `own`; `other` tries to take its id. */
export type Producer = 'own' | 'other';

export class Ledger {
  readonly #tries = new Map<number, Try[]>();
  /** Answers that no document names, in words. */
  readonly undocumented: string[] = [];
  /** Events whose producer was told that they are accepted. */
  accepted = 0;

  note(entry: Try): void {
    const tries = this.#tries.get(entry.number);
    if (isAccepted([entry]) && !isAccepted(tries ?? [])) this.accepted += 1;
    if (tries === undefined) this.#tries.set(entry.number, [entry]);
    else tries.push(entry);
  }

  /** Events that were tried, each with its tries in the order of their ends. */
  events(): IterableIterator<[number, readonly Try[]]> {
    return this.#tries.entries();
  }

  triesOf(number: number): readonly Try[] {
    return this.#tries.get(number) ?? [];
  }
}

/** Whether the event's own producer was told that it is accepted. */
export const isAccepted = (tries: readonly Try[]): boolean =>
  tries.some(({ producer, answer }) => producer === 'own' && answer?.status === 202);

export function inWords(one: Try): string {
  const { answer } = one;
  const flags =
    answer === undefined ? '' : `${answer.duplicate ? ' duplicate' : ''}${answer.differs ? ' differs' : ''}`;
  const said = answer === undefined ? 'no answer' : `${answer.status}${answer.code ? ` ${answer.code}` : ''}${flags}`;
  const times = `${(one.sentMs / 1000).toFixed(3)} to ${(one.doneMs / 1000).toFixed(3)} s`;
  return `${times}: ${one.producer} producer, body ${one.variant}, ${one.gateway}: ${said}`;
}
