// Restarts a program whenever it exits, as a service manager does.
import { setTimeout as delay } from 'node:timers/promises';
import { TestProcess } from '../support/gateway.ts';
import type { History } from './ledger.ts';

const RESTART_MS = 200;
/** Exit code 4 means that the queue was unavailable, and 5 that a killed consumer still counted as a replica. */
const EXPECTED_ENDS: readonly unknown[] = [4, 5, 'SIGKILL'];

export class Service {
  readonly name: string;
  readonly crashes: string[] = [];
  readonly lines: string[] = [];
  #process: TestProcess | undefined;
  #stopped = false;
  readonly #running: Promise<void>;

  constructor(
    name: string,
    command: string,
    args: readonly string[],
    env: Readonly<Record<string, string>>,
    history: History,
  ) {
    this.name = name;
    this.#running = this.#run(() => new TestProcess(command, args, env), history);
  }

  get pid(): number | undefined {
    return this.#process?.child.pid;
  }

  get listening(): boolean {
    return this.#process?.lines.some((line) => line.includes('listening on')) ?? false;
  }

  kill(): void {
    this.#process?.signal('SIGKILL');
  }

  /** Freezes the process. Returns the function that thaws it. */
  freeze(): () => void {
    const frozen = this.#process;
    frozen?.signal('SIGSTOP');
    return () => frozen?.signal('SIGCONT');
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#process?.signal('SIGCONT');
    this.kill();
    await this.#running;
  }

  async #run(begin: () => TestProcess, history: History): Promise<void> {
    const { name } = this;
    while (!this.#stopped) {
      const process = begin();
      this.#process = process;
      history.note(`${name} started, process ${process.child.pid}`);
      const { code, signal } = await process.exited(Number.POSITIVE_INFINITY);
      history.note(`${name} ended: ${code ?? signal}`);
      this.lines.push(`--- ${name}, process ${process.child.pid}`, ...process.lines);
      if (this.#stopped) return;
      if (!EXPECTED_ENDS.includes(code ?? signal))
        this.crashes.push(`${name} ended: ${code ?? signal}\n${process.output}`);
      await delay(RESTART_MS);
    }
  }
}
