// ingest-admin: shows and repairs the contents of the queue and the warehouse. This file wires up the program.
import { appendFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { HELP, readCommandLine, type CommandLine } from '../lib/admin/command-line.ts';
import { readAdminConfig } from '../lib/admin/config.ts';
import { UsageError, type Session } from '../lib/admin/session.ts';
import { ask } from '../lib/admin/terminal.ts';
import { QueueFailed } from '../lib/ingest/queue-admin.ts';
import { WarehouseFailed } from '../lib/ingest/warehouse-admin.ts';
import { processEnvironment } from '../lib/process/env.ts';
import { configurationFailure, EXIT, StartFailure, versionLine } from '../lib/process/program.ts';
import { SettingRefused } from '../lib/redis/wire/errors.ts';
import { queueAdmin } from '../lib/redis/admin/stream-admin.ts';
import { complainer, print, showStep } from './output.ts';
import { endNow, endWritten, onOutputFailure, stopSignal, written } from './process-end.ts';
import { messageOf } from '../lib/process/message-of.ts';
import { readSchema } from '../lib/consumer/schemas.ts';
import { openWarehouseAdmin } from './warehouse-adapter.ts';
import { quietLog } from './quiet-log.ts';
import { withRunning } from './state-folder.ts';
import { SYSTEM } from '../lib/process/clock.ts';

const NAME = 'ingest-admin';
const NOT_DONE = 1;

const complain = complainer(NAME);

async function main(): Promise<number> {
  const line = readCommandLine(process.argv.slice(2), SYSTEM.clock.epochMs());
  if (line === 'help' || line === 'version') {
    print(line === 'help' ? HELP : versionLine(NAME));
    return EXIT.clean;
  }
  const { config, report } = readAdminConfig(withRunning(processEnvironment()));
  for (const warning of report.warnings) complain(`warning: ${warning}`);
  if (config === undefined) throw configurationFailure(report);
  const { queueUri: uri, queuePartitions: partitions } = config;
  const queue = queueAdmin({ ...SYSTEM, uri, partitions, makes: line.changesQueue, log: quietLog });
  const warehouse = openWarehouseAdmin(config.warehouseUri);
  try {
    return await line.run(session(line, queue, warehouse, config.stateDir));
  } finally {
    await Promise.allSettled([...queue.streams, warehouse].map((one) => one.close()));
  }
}

function session(
  { json, yes }: CommandLine,
  queue: Session['queue'],
  warehouse: Session['warehouse'],
  stateDir: string,
): Session {
  const stopped = stopSignal(NOT_DONE);
  return {
    ...SYSTEM,
    queue,
    warehouse,
    json,
    print,
    printed: () => written(process.stdout),
    tell: complain,
    stopped,
    readSchema,
    recordErased: (ids) => appendErased(stateDir, ids),
    progress: showStep,
    confirm: async (question) => {
      if (yes) return true;
      if (!process.stdin.isTTY) throw new UsageError(`${question} Without a terminal, --yes is required`);
      const agreed = await ask(question, stopped);
      if (!agreed) complain('nothing was changed');
      return agreed;
    },
  };
}

/** Appends the ids to `erased-ids` and syncs the file. The caller waits for this before it erases anything. */
async function appendErased(stateDir: string, ids: readonly string[]): Promise<void> {
  const path = join(stateDir, 'erased-ids');
  try {
    await mkdir(stateDir, { recursive: true, mode: 0o700 });
    await appendFile(path, ids.map((id) => `${id}\n`).join(''), { mode: 0o600, flush: true });
  } catch (cause) {
    throw new StartFailure(EXIT.configuration, `${path}: the erasure cannot be recorded (${messageOf(cause)})`);
  }
}

function exitCodeOf(cause: unknown): number {
  if (cause instanceof QueueFailed) return cause.cause instanceof SettingRefused ? EXIT.configuration : EXIT.queue;
  if (cause instanceof WarehouseFailed) return EXIT.warehouse;
  if (cause instanceof StartFailure) return cause.exitCode;
  return cause instanceof UsageError ? EXIT.configuration : NOT_DONE;
}

function failed(cause: unknown): number {
  if (cause instanceof QueueFailed) complain(`the queue: ${cause.message}`);
  else if (cause instanceof WarehouseFailed) complain(`the warehouse: ${cause.message}`);
  else if (cause instanceof UsageError) complain(`${cause.message}; see --help`);
  else if (cause instanceof StartFailure) complain(cause.message);
  else complain(cause instanceof Error ? (cause.stack ?? cause.message) : String(cause));
  return exitCodeOf(cause);
}

// A closed pipe (`| head`) is not a failure.
onOutputFailure(NAME, () => endNow(EXIT.clean), NOT_DONE);
// Exits without waiting for connections that are still closing.
await endWritten(await main().catch(failed));
