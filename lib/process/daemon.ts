// The start of a daemon: its flags, its configuration, its log, and its signals.
//
// A failed start is a line in a JSON log, and a plain sentence on standard error if the log is text for people.
import type { AddressInfo } from 'node:net';
import type { Clock } from './clock.ts';
import { addressText, errno, type BindAddress, type Environment, type ReadConfig } from './env.ts';
import { createLog, isText, type Log, type LogOptions } from './log.ts';
import { configurationFailure, EXIT, modeOf, revision, StartFailure, version, versionLine } from './program.ts';
import type { Program } from './setting.ts';
import type { Key } from './settings.ts';
import { shownSettings } from './settings-text.ts';
import { onStopSignals, signalExit } from './shutdown.ts';

export interface Daemon<C> {
  readonly name: string;
  readonly help: string;
  readonly read: (environment: Environment) => ReadConfig<C>;
  /** `--check`: reads the files that the configuration names, and returns warnings. Rejects with a StartFailure. */
  readonly check: (config: C) => Promise<readonly string[]>;
  /** `--check=connect`, after `check`. Calls `found` with each line of its report. Rejects with a StartFailure. */
  readonly connect: (config: C, found: (line: string) => void) => Promise<void>;
  /** Rejects with a StartFailure. Calls `onStop` once, as soon as it holds something that must be closed. */
  readonly run: (config: C, log: Log, onStop: OnStop) => Promise<void>;
}

/** The orderly stop of a daemon. */
export interface Stop {
  readonly deadlineMs: number;
  /** For the log: what happens to unfinished work at the deadline. */
  readonly cutOff: string;
  readonly stop: () => Promise<void>;
}

export type OnStop = (stop: Stop) => void;

/** The process of a daemon. */
export interface DaemonProcess {
  readonly clock: Clock;
  readonly args: readonly string[];
  readonly environment: Environment;
  readonly print: (text: string) => void;
  readonly complain: (text: string) => void;
  readonly end: (code: number) => void;
}

/** Runs the daemon. Returns an exit code if the process must end, for example after `--help` or a failed start. */
export async function runDaemon<C>(daemon: Daemon<C>, host: DaemonProcess): Promise<number | undefined> {
  const { args, environment, print, complain } = host;
  let logging: LogOptions | undefined;
  let log: Log | undefined;
  try {
    const mode = modeOf(args);
    if (mode === 'help' || mode === 'version') {
      print(mode === 'help' ? daemon.help : versionLine(daemon.name));
      return EXIT.clean;
    }
    const read = daemon.read(environment);
    if (mode !== 'run') return await check(daemon, read, mode, host);
    logging = read.log;
    log = createLog(daemon.name, logging.level, logging.format);
    endOnBugs(log, host);
    if (read.config !== undefined) log.info(startFields(daemon.name, environment), 'starting');
    for (const warning of read.report.warnings) log.warn(warning);
    if (read.config === undefined) throw configurationFailure(read.report);
    await daemon.run(read.config, log, stopping(log, host));
    return undefined;
  } catch (cause) {
    const exitCode = cause instanceof StartFailure ? cause.exitCode : EXIT.fatal;
    const plain = log === undefined || logging === undefined || isText(logging.format);
    if (!(cause instanceof StartFailure)) {
      if (log === undefined) complain(cause instanceof Error ? (cause.stack ?? cause.message) : String(cause));
      else log.fatal({ err: cause }, 'the start failed');
    } else if (plain) complain(cause.message);
    else for (const line of cause.message.split('\n')) log?.fatal({ exitCode }, line);
    return exitCode;
  }
}

/** `--check` and `--check=connect`. Rejects with a StartFailure. */
async function check<C>(
  daemon: Daemon<C>,
  { config, report }: ReadConfig<C>,
  mode: 'check' | 'connect',
  { print, complain }: DaemonProcess,
): Promise<number> {
  for (const warning of report.warnings) complain(`warning: ${warning}`);
  if (config === undefined) throw configurationFailure(report);
  for (const warning of await daemon.check(config)) complain(`warning: ${warning}`);
  print('the configuration is good\n');
  if (mode === 'connect') await daemon.connect(config, (line) => print(`${line}\n`));
  return EXIT.clean;
}

/** Version and settings, for the first line of the log. */
const startFields = (name: string, environment: Environment) => ({
  version: version(),
  revision: revision(),
  node: process.version,
  settings: shownSettings(environment, name.replace('ingest-', '') as Program),
});

/** Binds an address and returns it as `host:port`. Throws a StartFailure that names `key` if it cannot be bound. */
export async function bound(
  key: Key,
  wanted: BindAddress,
  listen: (address: BindAddress) => Promise<AddressInfo>,
): Promise<string> {
  try {
    const { address, port } = await listen(wanted);
    return addressText({ host: address, port });
  } catch (cause) {
    throw new StartFailure(
      EXIT.bind,
      `${key}=${addressText(wanted)}: cannot be bound (${errno(cause)}); see who owns the port, ` +
        'or choose another address',
    );
  }
}

/**
 * The first signal asks for an orderly stop, which ends with 0, or with 1 if it fails. The process ends within
 * `deadlineMs` whatever `stop` does. A second signal ends it immediately.
 */
const stopping =
  (log: Log, { clock, end }: DaemonProcess): OnStop =>
  ({ deadlineMs, cutOff, stop }) => {
    let isStopping = false;
    onStopSignals((signal) => {
      if (isStopping) {
        log.warn({ signal }, 'second signal: ending immediately');
        end(signalExit(signal));
        return;
      }
      isStopping = true;
      log.info({ signal }, 'stopping');
      const deadline = clock.after(deadlineMs, () => {
        log.warn(`the drain time-out is over: ${cutOff}`);
        end(EXIT.clean);
      });
      const stopped = (): void => {
        deadline.close();
        log.info('stopped');
        end(EXIT.clean);
      };
      stop().then(stopped, (cause: unknown) => {
        log.fatal({ err: cause }, 'stopping failed');
        end(EXIT.fatal);
      });
    });
  };

function endOnBugs(log: Log, { end }: DaemonProcess): void {
  process.on('uncaughtException', (cause) => {
    log.fatal({ err: cause }, 'uncaught error');
    end(EXIT.fatal);
  });
}
