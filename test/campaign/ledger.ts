export interface Try {
  readonly number: number;
  readonly variant: number;
  readonly producer: Producer;
  readonly gateway: string;
  readonly sentMs: number;
  readonly doneMs: number;
  /** `undefined` if no answer arrived, so the event may have been accepted. */
  readonly answer: Told | undefined;
  readonly clockMoves: readonly [before: number, after: number];
}

export interface Told {
  readonly status: number;
  readonly code: string | undefined;
  readonly duplicate: boolean;
  readonly differs: boolean;
}

/** The producer whose certificate a try uses. `other` tries to use the id of an event of `own`. */
export type Producer = 'own' | 'other';

export class Ledger {
  readonly #tries = new Map<number, Try[]>();
  /** Answers that the API file does not document. */
  readonly undocumented: string[] = [];
  accepted = 0;

  note(entry: Try): void {
    const tries = this.#tries.get(entry.number);
    if (isAccepted([entry]) && !isAccepted(tries ?? [])) this.accepted += 1;
    if (tries === undefined) this.#tries.set(entry.number, [entry]);
    else tries.push(entry);
  }

  /** Returns each event with its tries, in the order in which they finished. */
  events(): IterableIterator<[number, readonly Try[]]> {
    return this.#tries.entries();
  }

  triesOf(number: number): readonly Try[] {
    return this.#tries.get(number) ?? [];
  }
}

/** Records faults and process exits with their times. */
export class History {
  readonly #beganMs = performance.now();
  readonly #lines: string[] = [];

  now(): number {
    return performance.now() - this.#beganMs;
  }

  note(text: string): void {
    this.#lines.push(`${(this.now() / 1000).toFixed(3).padStart(9)} s  ${text}\n`);
  }

  get text(): string {
    return this.#lines.join('');
  }
}

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
