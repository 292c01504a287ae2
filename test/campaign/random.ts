// A seeded pseudorandom number generator (Mulberry32).

export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
  }

  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  /** Returns an integer from `low` to `high`, including both. */
  between(low: number, high: number): number {
    return low + Math.floor(this.fraction() * (high - low + 1));
  }

  chance(probability: number): boolean {
    return this.fraction() < probability;
  }

  pick<T>(from: readonly T[]): T {
    const one = from[this.between(0, from.length - 1)];
    if (one === undefined) throw new Error('nothing to pick from');
    return one;
  }
}
