// The beginning of a daemon's process: flags that are answered at once, and a start that fails with words and a code.
//
// A failure to start is a line of the log like any other. Where the log is text for people it is a plain sentence on
// standard error instead; so are the answers to flags, which a person gives.
import {
  addressText,
  errno,
  processEnvironment,
  type BindAddress,
  type Environment,
  type ReadConfig,
} from '../lib/process/env.ts';
import type { Program } from '../lib/process/setting.ts';
import type { Key } from '../lib/process/settings.ts';
import { shownSettings } from '../lib/process/settings-text.ts';
import { createLog, isText, type Log, type LogOptions } from '../lib/process/log.ts';
import {
  configurationFailure,
  EXIT,
  modeOf,
  StartFailure,
  revision,
  version,
  versionLine,
  type Mode,
} from '../lib/process/program.ts';
import { complainer, print } from './output.ts';
import { onStopSignals } from '../lib/process/shutdown.ts';
import { endNow, endWritten, onOutputFailure } from './process-end.ts';
import { SYSTEM } from './system.ts';

export interface Daemon<C> {
  readonly name: string;
  readonly help: string;
  readonly read: (environment: Environment) => ReadConfig<C>;
  /** `--check`: looks at the files that the configuration names. Rejects with a StartFailure. */
  readonly check: (config: C) => Promise<void>;
  /** `--check=connect`, after `check`: what it found, a line each. Rejects with a StartFailure. */
  readonly connect: (config: C, found: (line: string) => void) => Promise<void>;
  /**
   * Starts. Rejects with a StartFailure where it cannot. `onStop` is called once, as soon as there is something to end.
   */
  readonly run: (config: C, log: Log, onStop: OnStop) => Promise<void>;
}

/** How a daemon ends in order. */
export interface Stop {
  /** How long `stop` may take, in milliseconds. */
  readonly deadlineMs: number;
  /** What becomes of what is left after that, for the log. */
  readonly cutOff: string;
  readonly stop: () => Promise<void>;
}

/** Takes the place of the early signals: the first signal runs `stop`, and the process ends with 0. */
export type OnStop = (stop: Stop) => void;

/** Runs the daemon by this process's arguments and environment. Ends the process where there is nothing to run. */
export async function startDaemon<C>(daemon: Daemon<C>): Promise<void> {
  process.title = daemon.name;
  process.exitCode = EXIT.fatal;
  onOutputFailure(daemon.name, () => endNow(EXIT.clean), EXIT.fatal);
  const complain = complainer(daemon.name);
  const environment = processEnvironment();
  let logging: LogOptions | undefined;
  let log: Log | undefined;
  try {
    const mode = modeOf(process.argv.slice(2));
    if (mode === 'help' || mode === 'version') return await answer(mode, daemon);
    const read = daemon.read(environment);
    if (mode !== 'run') return await check(daemon, read, mode, complain);
    logging = read.log;
    log = createLog(daemon.name, logging.level, logging.format);
    endOnBugs(log);
    if (read.config !== undefined) log.info(startFields(daemon.name, environment), 'starting');
    for (const warning of read.report.warnings) log.warn(warning);
    if (read.config === undefined) throw configurationFailure(read.report);
    await daemon.run(read.config, log, stopping(log));
  } catch (cause) {
    const exitCode = cause instanceof StartFailure ? cause.exitCode : EXIT.fatal;
    const plain = log === undefined || logging === undefined || isText(logging.format);
    if (!(cause instanceof StartFailure)) {
      if (log === undefined) complain(cause instanceof Error ? (cause.stack ?? cause.message) : String(cause));
      else log.fatal({ err: cause }, 'the start failed');
    } else if (plain) complain(cause.message);
    else for (const line of cause.message.split('\n')) log?.fatal({ exitCode }, line);
    await endWritten(exitCode);
  }
}

/** `--check` and `--check=connect`. Ends the process, or rejects with a StartFailure. */
async function check<C>(
  daemon: Daemon<C>,
  { config, report }: ReadConfig<C>,
  mode: 'check' | 'connect',
  complain: (text: string) => void,
): Promise<never> {
  for (const warning of report.warnings) complain(`warning: ${warning}`);
  if (config === undefined) throw configurationFailure(report);
  await daemon.check(config);
  print('the configuration is good\n');
  if (mode === 'connect') await daemon.connect(config, (line) => print(`${line}\n`));
  return endWritten(EXIT.clean);
}

/** What is running, and how it was set: the first line of the log. */
const startFields = (name: string, environment: Environment) => ({
  version: version(),
  revision: revision(),
  node: process.version,
  settings: shownSettings(environment, name.replace('ingest-', '') as Program),
});

/** The failed start of a program whose address cannot be bound. */
export const bindFailure = (key: Key, address: BindAddress, cause: unknown): StartFailure =>
  new StartFailure(
    EXIT.bind,
    `${key}=${addressText(address)}: cannot be bound (${errno(cause)}); see who owns the port, ` +
      'or choose another address',
  );

const stopping =
  (log: Log): OnStop =>
  ({ deadlineMs, cutOff, stop }) =>
    onStopSignals({
      clock: SYSTEM.clock,
      deadlineMs,
      exit: endNow,
      onSecondSignal: (signal) => log.warn({ signal }, 'second signal: ending at once'),
      onDeadline: () => log.warn(`the drain time-out is over: ${cutOff}`),
      onFailure: (cause) => log.fatal({ err: cause }, 'stopping failed'),
      stop: async (signal) => {
        log.info({ signal }, 'stopping');
        await stop();
        log.info('stopped');
      },
    });

function answer(
  mode: Extract<Mode, 'help' | 'version'>,
  { name, help }: Pick<Daemon<unknown>, 'name' | 'help'>,
): Promise<never> {
  print(mode === 'help' ? help : versionLine(name));
  return endWritten(EXIT.clean);
}

function endOnBugs(log: Log): void {
  process.on('uncaughtException', (cause) => {
    log.fatal({ err: cause }, 'uncaught error');
    endNow(EXIT.fatal);
  });
}
