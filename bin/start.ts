// The beginning of a daemon's process: flags that are answered at once, and a start that fails with words and a code.
import { processEnvironment, type Environment, type EnvReport } from '../lib/process/env.ts';
import { configurationFailure, EXIT, modeOf, StartFailure, version, type Mode } from '../lib/process/program.ts';

export interface Daemon<C> {
  readonly name: string;
  readonly help: string;
  readonly read: (environment: Environment) => { readonly config: C | undefined; readonly report: EnvReport };
  /** `--check`: looks at the files that the configuration names. Rejects with a StartFailure. */
  readonly check: (config: C) => Promise<void>;
  /** Starts. Rejects with a StartFailure where it cannot. */
  readonly run: (config: C, warnings: readonly string[]) => Promise<void>;
}

/** Runs the daemon by this process's arguments and environment. Ends the process where there is nothing to run. */
export async function startDaemon<C>(daemon: Daemon<C>): Promise<void> {
  process.title = daemon.name;
  process.exitCode = EXIT.fatal;
  const complain = (text: string): void => {
    for (const line of text.split('\n')) process.stderr.write(`${daemon.name}: ${line}\n`);
  };
  try {
    const mode = modeOf(process.argv.slice(2));
    if (mode === 'help' || mode === 'version') answer(mode, daemon.help);
    const { config, report } = daemon.read(processEnvironment());
    if (config === undefined || mode === 'check')
      for (const warning of report.warnings) complain(`warning: ${warning}`);
    if (config === undefined) throw configurationFailure(report);
    if (mode !== 'check') return await daemon.run(config, report.warnings);
    await daemon.check(config);
    process.stdout.write('the configuration is good\n');
    process.exit(EXIT.clean);
  } catch (cause) {
    if (cause instanceof StartFailure) {
      complain(cause.message);
      process.exit(cause.exitCode);
    }
    complain(cause instanceof Error ? (cause.stack ?? cause.message) : String(cause));
    process.exit(EXIT.fatal);
  }
}

function answer(mode: Extract<Mode, 'help' | 'version'>, help: string): never {
  process.stdout.write(mode === 'help' ? help : `${version()}\n`);
  process.exit(EXIT.clean);
}
