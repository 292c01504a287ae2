// Starts a daemon: parses its flags, reads its configuration, creates its log and handles its signals.
//
// A failed startup is reported in the log if the log is JSON, and otherwise as a sentence on standard error.
import type { AddressInfo } from 'node:net';
import type { Environment, ReadConfig } from '../lib/process/read-settings.ts';
import { createLog, logsText, type Log } from '../lib/process/log.ts';
import { errorCode, trustServers } from '../lib/process/operator-file.ts';
import { BUILD, EXIT, modeOf, StartFailure, versionLine } from '../lib/process/program.ts';
import { addressText, type BindAddress } from '../lib/process/setting-kinds.ts';
import type { Key } from '../lib/process/settings.ts';
import { daemonHelp, shownSettings, type HelpText } from '../lib/process/settings-help.ts';
import { signalExit } from './early-signals.ts';
import { complainer, endNow, endWritten, onOutputFailure, onSignals, print } from './terminal.ts';
import { SYSTEM } from '../lib/process/clock.ts';

interface Trusting {
  readonly serverCa?: string | undefined;
}

export interface Daemon<C> extends HelpText {
  readonly read: (environment: Environment) => ReadConfig<C>;
  /** For `--check`: reads the files that the configuration names, and returns warnings. Rejects with a StartFailure. */
  readonly check: (config: C) => Promise<readonly string[]>;
  /** For `--check=connect`, after `check`: calls `found` with each line of the report. Rejects with a StartFailure. */
  readonly connect: (config: C, report: (line: string) => void) => Promise<void>;
  /** Starts the daemon, and calls `onStop` once to register its orderly stop. Rejects with a StartFailure. */
  readonly run: (config: C, log: Log, onStop: OnStop) => Promise<void>;
}

interface Stop {
  readonly deadlineMs: number;
  /** Returns the log line about the work that is unfinished at the deadline, and the exit code. */
  readonly cutOff: () => { readonly text: string; readonly exitCode: number };
  readonly stop: () => Promise<void>;
}

export type OnStop = (stop: Stop) => void;

/** Runs the daemon. Exits the process if none is running, for example after `--help` or a failed startup. */
export async function startDaemon<C extends Trusting>(daemon: Daemon<C>): Promise<void> {
  const name = `ingest-${daemon.program}`;
  process.title = name;
  process.exitCode = EXIT.fatal;
  onOutputFailure(
    name,
    () => endNow(EXIT.clean),
    () => endNow(EXIT.fatal),
  );
  const exitCode = await started(daemon, name);
  if (exitCode !== undefined) await endWritten(exitCode);
}

async function started<C extends Trusting>(daemon: Daemon<C>, name: string): Promise<number | undefined> {
  const { program } = daemon;
  const complain = complainer(name);
  let log: Log | undefined;
  try {
    const mode = modeOf(process.argv.slice(2));
    if (mode === 'help' || mode === 'help=all' || mode === 'version') {
      print(mode === 'version' ? versionLine(name) : daemonHelp(daemon, mode === 'help=all'));
      return EXIT.clean;
    }
    const read = daemon.read(process.env);
    trustServers(read.config?.serverCa);
    if (mode !== 'run') return await check(daemon, read, mode, complain);
    log = createLog(name, read.log);
    endOnBugs(log);
    if (read.config !== undefined) log.info({ ...BUILD, settings: shownSettings(process.env, program) }, 'starting');
    for (const warning of read.report.warnings) log.warn(warning);
    if (read.config === undefined) throw new StartFailure(EXIT.configuration, read.report.problems.join('\n'));
    await daemon.run(read.config, log, stopping(log));
    return undefined;
  } catch (cause) {
    const exitCode = cause instanceof StartFailure ? cause.exitCode : EXIT.fatal;
    const plain = log === undefined || logsText();
    if (!(cause instanceof StartFailure)) {
      if (log === undefined) complain(cause instanceof Error ? (cause.stack ?? cause.message) : String(cause));
      else log.fatal({ err: cause }, 'startup failed');
    } else if (plain) complain(cause.message);
    else for (const line of cause.message.split('\n')) log?.fatal({ exitCode }, line);
    return exitCode;
  }
}

async function check<C>(
  daemon: Daemon<C>,
  { config, report }: ReadConfig<C>,
  mode: 'check' | 'connect',
  complain: (text: string) => void,
): Promise<number> {
  for (const warning of report.warnings) complain(`warning: ${warning}`);
  if (config === undefined) throw new StartFailure(EXIT.configuration, report.problems.join('\n'));
  for (const warning of await daemon.check(config)) complain(`warning: ${warning}`);
  if (mode === 'connect') await daemon.connect(config, (line) => print(`${line}\n`));
  print('the configuration is good\n');
  return EXIT.clean;
}

/** Binds an address and returns it as `host:port`. Rejects with a StartFailure that names `key` if this fails. */
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
      `${key}=${addressText(wanted)}: cannot be bound (${errorCode(cause)}); see who owns the port, ` +
        'or choose another address',
    );
  }
}

/**
 * The first signal starts an orderly stop, after which the process exits with 0, or with 1 if `stop` rejects. The
 * process exits after `deadlineMs` at the latest, with the code of `cutOff`. A second signal makes it exit immediately.
 */
const stopping =
  (log: Log): OnStop =>
  ({ deadlineMs, cutOff, stop }) => {
    let isStopping = false;
    onSignals((signal) => {
      if (isStopping) {
        log.warn({ signal }, 'second signal: ending immediately');
        endNow(signalExit(signal));
      }
      isStopping = true;
      log.info({ signal }, 'stopping');
      SYSTEM.clock.after(deadlineMs, () => {
        const { text, exitCode } = cutOff();
        log.warn({ exitCode }, `the drain timeout has passed: ${text}`);
        endNow(exitCode);
      });
      const stopped = (): void => {
        log.info('stopped');
        endNow(EXIT.clean);
      };
      stop().then(stopped, (cause: unknown) => {
        log.fatal({ err: cause }, 'stopping failed');
        endNow(EXIT.fatal);
      });
    });
  };

function endOnBugs(log: Log): void {
  process.on('uncaughtException', (cause) => {
    log.fatal({ err: cause }, 'uncaught error');
    endNow(EXIT.fatal);
  });
}
