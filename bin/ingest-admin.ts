// ingest-admin: shows and repairs the contents of the queue and the warehouse. This file wires up the program.
import { help, readCommandLine, type CommandLine } from '../lib/admin/command-line.ts';
import { readAdminConfig } from '../lib/admin/config.ts';
import { AttentionNeeded, UsageError, type Session } from '../lib/admin/session.ts';
import { ask } from '../lib/admin/terminal.ts';
import { QueueFailed } from '../lib/ingest/queue-admin.ts';
import { WarehouseFailed } from '../lib/ingest/warehouse-admin.ts';
import { trustServers } from '../lib/process/operator-file.ts';
import { createLog } from '../lib/process/log.ts';
import { EXIT, StartFailure, versionLine } from '../lib/process/program.ts';
import { SettingRefused } from '../lib/redis/wire/errors.ts';
import { queueAdmin } from '../lib/redis/admin/stream-admin.ts';
import { complainer, endNow, endWritten, onOutputFailure, print, showStep, stopSignal, written } from './terminal.ts';
import { readSchema } from '../lib/consumer/schemas.ts';
import { openWarehouseAdmin } from './warehouse-adapter.ts';
import { withRunning } from './state-folder.ts';
import { SYSTEM } from '../lib/process/clock.ts';

const NAME = 'ingest-admin';
const NOT_DONE = 1;
/** A warehouse is opened on its first use. */
const UNUSED_WAREHOUSE = 'sqlite:/dev/null/unused';

const complain = complainer(NAME);

async function main(): Promise<number> {
  const line = readCommandLine(process.argv.slice(2), SYSTEM.clock.epochMs());
  if (line === 'help' || line === 'help=all' || line === 'version') {
    print(line === 'version' ? versionLine(NAME) : help(line === 'help=all'));
    return EXIT.clean;
  }
  const { config, report } = readAdminConfig(withRunning(process.env, complain), line.uses);
  for (const warning of report.warnings) complain(`warning: ${warning}`);
  if (config === undefined) throw new StartFailure(EXIT.configuration, report.problems.join('\n'));
  trustServers(config.serverCa);
  const { queueUri: uri, queuePartitions: partitions } = config;
  const sides = line.uses.sides.filter((side) => (side === 'queue' ? uri : config.warehouseUri) !== '');
  const queue = sides.includes('queue')
    ? queueAdmin({ ...SYSTEM, uri, partitions, makes: line.changesQueue, log: createLog(NAME, 'error') })
    : { uri: '', streams: [] };
  const warehouse = openWarehouseAdmin(sides.includes('warehouse') ? config.warehouseUri : UNUSED_WAREHOUSE);
  try {
    const session = { ...outputOf(line), sides, queue, warehouse, replicasRequired: config.queueReplicas };
    return (await line.run(session)) ? EXIT.clean : NOT_DONE;
  } finally {
    await Promise.allSettled([...queue.streams, warehouse].map((one) => one.close()));
  }
}

function outputOf({ json, yes }: CommandLine): Omit<Session, 'sides' | 'queue' | 'warehouse'> {
  const stopped = stopSignal(NOT_DONE);
  return {
    ...SYSTEM,
    json,
    print,
    printed: () => written(process.stdout).then(() => output.isOpen),
    tell: complain,
    stopped,
    readSchema: (path) => readSchema(path, SYSTEM.clock),
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

function exitCodeOf(cause: unknown): number {
  if (cause instanceof QueueFailed) return cause.cause instanceof SettingRefused ? EXIT.configuration : EXIT.queue;
  if (cause instanceof WarehouseFailed) return EXIT.warehouse;
  if (cause instanceof AttentionNeeded) return EXIT.attention;
  if (cause instanceof StartFailure) return cause.exitCode;
  return cause instanceof UsageError ? EXIT.configuration : NOT_DONE;
}

function failed(cause: unknown): number {
  if (cause instanceof QueueFailed) complain(`the queue: ${cause.message}`);
  else if (cause instanceof WarehouseFailed) complain(`the warehouse: ${cause.message}`);
  else if (cause instanceof UsageError) complain(`${cause.message}; see --help`);
  else if (cause instanceof StartFailure || cause instanceof AttentionNeeded) complain(cause.message);
  else complain(cause instanceof Error ? (cause.stack ?? cause.message) : String(cause));
  return exitCodeOf(cause);
}

// A command goes on without its output, because a change must finish and be recorded. A closed pipe (`| head`) is not a
// failure.
const output: { isOpen: boolean; hasFailed: boolean; codeAtEnd?: number } = { isOpen: true, hasFailed: false };
const exitCode = (code: number): number => (code === EXIT.clean && output.hasFailed ? NOT_DONE : code);
onOutputFailure(
  NAME,
  () => (output.isOpen = false),
  () => {
    Object.assign(output, { isOpen: false, hasFailed: true });
    if (output.codeAtEnd !== undefined) endNow(exitCode(output.codeAtEnd));
  },
);
output.codeAtEnd = await main().catch(failed);
// Exits without waiting for connections that are still closing.
await endWritten(exitCode(output.codeAtEnd));
