import { runDaemon, type Daemon } from '../lib/process/daemon.ts';
import { processEnvironment } from '../lib/process/env.ts';
import { EXIT } from '../lib/process/program.ts';
import { complainer, print } from './output.ts';
import { endNow, endWritten, onOutputFailure } from './process-end.ts';
import { SYSTEM } from './system.ts';

export async function startDaemon<C>(daemon: Daemon<C>): Promise<void> {
  process.title = daemon.name;
  process.exitCode = EXIT.fatal;
  onOutputFailure(daemon.name, () => endNow(EXIT.clean), EXIT.fatal);
  const exitCode = await runDaemon(daemon, {
    clock: SYSTEM.clock,
    args: process.argv.slice(2),
    environment: processEnvironment(),
    print,
    complain: complainer(daemon.name),
    end: endNow,
  });
  if (exitCode !== undefined) await endWritten(exitCode);
}
