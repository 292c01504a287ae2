// How many look-ups go on at a time; the others wait in line.
//
// Fact: a look-up may bring a whole event from the queue over the connection that new events go by, and take a
// millisecond to answer; 2,300 of them at once made other producers' events wait past the queue's time-out (125 of 226
// were answered 503). Choice: few at a time. A connection has one of them in line at most, so the line is fair between
// connections.
const AT_A_TIME = 2;
/** Who has waited longer is refused, in milliseconds. */
const WAIT_MS = 5_000;

interface Waiter {
  readonly sinceMs: number;
  readonly go: (granted: boolean) => void;
}

export class LookUpTurns {
  #free = AT_A_TIME;
  #line: Waiter[] = [];

  /** Resolves when it is one's turn: true, and `giveBack` is to be called; false where that took too long. */
  take(): Promise<boolean> {
    if (this.#free > 0) {
      this.#free -= 1;
      return Promise.resolve(true);
    }
    return new Promise((go) => this.#line.push({ sinceMs: performance.now(), go }));
  }

  giveBack(): void {
    const late = performance.now() - WAIT_MS;
    for (let next = this.#line.shift(); next !== undefined; next = this.#line.shift()) {
      const granted = next.sinceMs >= late;
      next.go(granted);
      if (granted) return;
    }
    this.#free += 1;
  }
}
