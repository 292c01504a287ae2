// One of the project's programs as a real process, started by its launcher in bin as an operator starts it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { until } from './until.ts';

const BIN = join(import.meta.dirname, '../../bin');
const START_TIMEOUT_MS = 15_000;

export type ProgramName = 'ingest-gateway' | 'ingest-consumer' | 'ingest-send';

export interface Program {
  readonly pid: number;
  /** Everything it has written so far. */
  output(): string;
  /** The JSON lines of its log so far. */
  log(): readonly Readonly<Record<string, unknown>>[];
  running(): boolean;
  signal(signal: NodeJS.Signals): void;
  /** Resolves with how it ended: the exit code, or the signal's name. */
  readonly ended: Promise<number | NodeJS.Signals>;
  /** SIGKILL, and waits for the end. Fine to call on a program that has ended. */
  kill(): Promise<void>;
}

export interface StartOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly args?: readonly string[];
  readonly cwd?: string;
  readonly input?: string | Buffer;
}

/** Starts a program with no environment but PATH and `env`. */
export function startProgram(name: ProgramName, { env = {}, args = [], cwd, input }: StartOptions = {}): Program {
  const child = spawn(join(BIN, name), args, {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
    ...(cwd === undefined ? {} : { cwd }),
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  child.stdin.on('error', () => undefined).end(input);
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals);
  const running = (): boolean => child.exitCode === null && child.signalCode === null;
  const lastResort = (): void => void child.kill('SIGKILL');
  process.once('exit', lastResort);
  void ended.then(() => process.removeListener('exit', lastResort));
  return {
    pid: child.pid ?? 0,
    output: () => output,
    log: () => output.split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Record<string, unknown>),
    running,
    signal: (signal) => void child.kill(signal),
    ended,
    kill: async () => {
      if (running()) child.kill('SIGKILL');
      await ended;
    },
  };
}

/** Resolves with the URL that a server's log says it listens on. Rejects with its output when it ends before. */
export async function listening(program: Program): Promise<string> {
  return until('the program listens', START_TIMEOUT_MS, () => {
    if (!program.running()) throw new Error(`the program ended:\n${program.output()}`);
    return /listening on (https?:\/\/[^\s"]+)/.exec(program.output())?.[1];
  });
}
