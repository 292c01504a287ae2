// The connections to both queues, one pair for each user that gateways bring: what a gateway sends as AUTH is handed
// on, and the dispatcher has no credentials of its own.
//
// Invariant: a gateway's events travel on connections of its own user only. A pair is closed with the last gateway that
// used it; the one of gateways that send no AUTH exists from the start to the end, and tells whether the queues are
// there.
//
// A password is kept no longer than the pair that was opened with it.
import { NOT_ASKED } from '../ingest/queue.ts';
import type { Clock } from '../process/clock.ts';
import { QUEUES, type Dispatcher, type QueueName } from './dispatcher.ts';

export interface Credentials {
  readonly user: string | undefined;
  readonly password: string;
}

/** A dispatcher that is used until it is released. */
export interface Session {
  readonly queue: Dispatcher;
  release(): void;
}

/** How long an AUTH waits for the first queue to take it. Both away: it is let in, and its events are shed. */
const AUTH_TIMEOUT_MS = 1_000;
const AUTH_INTERVAL_MS = 10;
const START_TIMEOUT_MS = 5_000;
const START_INTERVAL_MS = 25;

/** What Redis says to whom it does not know, or who has no rights. */
const REFUSED = /\b(?:WRONGPASS|NOAUTH|NOPERM)\b|lacks rights/;

interface Pair {
  readonly queue: Dispatcher;
  users: number;
}

export class Sessions {
  readonly #open: (credentials: Credentials | undefined) => Dispatcher;
  readonly #clock: Clock;
  readonly #pairs = new Map<string, Pair>();
  readonly anonymous: Session;

  constructor(open: (credentials: Credentials | undefined) => Dispatcher, clock: Clock) {
    this.#open = open;
    this.#clock = clock;
    const queue = open(undefined);
    this.anonymous = { queue, release: () => undefined };
  }

  /**
   * Waits until one queue takes events, and the other one has said whether it does. False: neither does in time.
   * `assertUsable` is called meanwhile; what it throws ends the wait.
   */
  async start(assertUsable: () => void): Promise<boolean> {
    const { lanes } = this.anonymous.queue;
    const haveSpoken = (): boolean =>
      lanes.every(({ queue }) => queue.states().every((state) => state.available || state.reason !== NOT_ASKED));
    const deadline = this.#clock.ms() + START_TIMEOUT_MS;
    for (;;) {
      const overdue = this.#clock.ms() > deadline;
      assertUsable();
      if (this.trouble === undefined && (overdue || haveSpoken())) return true;
      if (overdue) return false;
      await this.#clock.sleep(START_INTERVAL_MS);
    }
  }

  /** A session with these credentials, or why neither queue takes them. */
  async authenticate(user: string | undefined, password: string): Promise<Session | string> {
    const key = JSON.stringify([user ?? 'default', password]);
    const pair = this.#pairs.get(key) ?? { queue: this.#open({ user, password }), users: 0 };
    this.#pairs.set(key, pair);
    pair.users += 1;
    const refusal = await refusalOf(pair.queue, this.#clock);
    if (refusal === undefined) return { queue: pair.queue, release: () => this.#release(key, pair) };
    this.#release(key, pair);
    return refusal;
  }

  /** Whether some user's events get into this queue, or would with credentials that no gateway has brought yet. */
  takesEvents(name: QueueName): boolean {
    const lanes = this.#dispatchers.map(({ lanes }) => lanes[QUEUES.indexOf(name) === 0 ? 0 : 1]);
    if (lanes.some(({ queue }) => queue.state().available)) return true;
    return this.#pairs.size === 0 && lanes.some((lane) => wantsCredentials(lane.queue.state()));
  }

  /** Why no event gets in; undefined where one queue takes some. */
  get trouble(): string | undefined {
    if (QUEUES.some((name) => this.takesEvents(name))) return undefined;
    const state = (this.#dispatchers.at(-1) as Dispatcher).state();
    return state.available ? undefined : state.reason;
  }

  async close(): Promise<void> {
    await Promise.all(this.#dispatchers.map((dispatcher) => dispatcher.close()));
  }

  get #dispatchers(): Dispatcher[] {
    return [this.anonymous.queue, ...[...this.#pairs.values()].map(({ queue }) => queue)];
  }

  #release(key: string, pair: Pair): void {
    pair.users -= 1;
    if (pair.users > 0) return;
    this.#pairs.delete(key);
    void pair.queue.close();
  }
}

type State = ReturnType<Dispatcher['state']>;

const wantsCredentials = (state: State): boolean => !state.available && REFUSED.test(state.reason);

/** Waits until a queue takes the credentials. Undefined: one does, or neither is there to say. */
async function refusalOf(dispatcher: Dispatcher, clock: Clock): Promise<string | undefined> {
  const end = clock.ms() + AUTH_TIMEOUT_MS;
  while (clock.ms() < end) {
    const states = dispatcher.lanes.map(({ queue }) => queue.state());
    if (states.some(({ available }) => available)) return undefined;
    const refused = states.find(wantsCredentials);
    if (refused?.available === false) return refused.reason;
    await clock.sleep(AUTH_INTERVAL_MS);
  }
  return undefined;
}
