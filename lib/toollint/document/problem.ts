// One thing that is wrong, or could be better, in a report; and a bounded list of such things.

/** `schema`: the document is malformed. `consistency`: its members contradict each other. `advice`: neither. */
type ProblemLevel = 'schema' | 'consistency' | 'advice';

export interface Problem {
  readonly level: ProblemLevel;
  /** 'schema', a text problem's code, 'invariant-1' to 'invariant-23', or an advice's name. */
  readonly code: string;
  /** JSON Pointer (RFC 6901) to the member; '' is the document. */
  readonly pointer: string;
  readonly message: string;
}

/** Keeps the first problems of each level and counts them all. */
export class ProblemList {
  readonly counts: Record<ProblemLevel, number> = { schema: 0, consistency: 0, advice: 0 };
  readonly #kept: Problem[] = [];
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  add(problem: Problem): void {
    this.counts[problem.level] += 1;
    if (this.counts[problem.level] <= this.#most) this.#kept.push(problem);
  }

  /** What was kept, in the order of arrival, without levels that do not count. */
  list(levels: readonly ProblemLevel[]): Problem[] {
    return this.#kept.filter(({ level }) => levels.includes(level)).slice(0, this.#most);
  }
}
