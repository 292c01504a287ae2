import { TestProcess } from './gateway.ts';
import type { StartOptions } from './scope.ts';

export type ProgramName = 'ingest-gateway' | 'ingest-consumer' | 'ingest-send' | 'ingest-admin' | 'toollint';

export interface ProgramOptions extends StartOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly args?: readonly string[];
}

export class Program extends TestProcess {
  constructor(name: ProgramName, { env = {}, args = [], ...options }: ProgramOptions) {
    super(new URL(`../../bin/${name}`, import.meta.url).pathname, args, env, options);
  }

  get ended(): Promise<number | NodeJS.Signals> {
    return this.exited().then(({ code, signal }) => (code ?? signal) as number | NodeJS.Signals);
  }

  get running(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  async listening(): Promise<string> {
    const line = await this.line(/listening on \w+:\/\//);
    return /listening on (\w+:\/\/[^\s"]+)/.exec(line)?.[1] ?? '';
  }

  async kill(): Promise<void> {
    if (this.running) this.signal('SIGKILL');
    await this.ended;
  }
}
