// What several queues do at the end of one turn of the event loop, so that what they send to one server leaves in one
// write.
import type { Clock } from '../../process/clock.ts';

type Task = () => void;

export class TurnEnd {
  readonly #clock: Clock;
  #tasks: Task[] = [];
  /** What comes after the tasks that run now; undefined while none run. */
  #afterwards: Task[] | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Runs `task` at the end of this turn, once the sockets that are readable now were read. */
  readonly defer = (task: Task): void => {
    this.#tasks.push(task);
    if (this.#tasks.length === 1) this.#clock.turnEnd(this.#run);
  };

  /** Runs `task` after all that was deferred, while that runs, else immediately. */
  readonly afterwards = (task: Task): void => {
    if (this.#afterwards === undefined) task();
    else this.#afterwards.push(task);
  };

  readonly #run = (): void => {
    const tasks = this.#tasks;
    const afterwards: Task[] = [];
    this.#tasks = [];
    this.#afterwards = afterwards;
    for (const task of tasks) task();
    this.#afterwards = undefined;
    for (const task of afterwards) task();
  };
}
