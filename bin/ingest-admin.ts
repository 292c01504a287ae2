// ingest-admin: looks into the queue and the warehouse, and puts things right. It ties the parts together, and decides
// about exit codes.
import { readCommandLine, HELP, UsageError, type Command, type CommandLine } from '../lib/admin/command-line.ts';
import { readAdminConfig } from '../lib/admin/config.ts';
import { eraseEvent } from '../lib/admin/erase.ts';
import { showEvent } from '../lib/admin/find.ts';
import { dropRows, listRows, showRow } from '../lib/admin/quarantine.ts';
import { replayRows } from '../lib/admin/replay.ts';
import { printJson, type Session } from '../lib/admin/session.ts';
import { sizeFile } from '../lib/admin/size.ts';
import { failureOf, look, lookJson, lookText } from '../lib/admin/status.ts';
import { ask, showProgress } from '../lib/admin/terminal.ts';
import { watchStatus } from '../lib/admin/watch.ts';
import { QueueFailed } from '../lib/ingest/queue-admin.ts';
import { WarehouseFailed } from '../lib/ingest/warehouse-admin.ts';
import { processEnvironment } from '../lib/process/env.ts';
import { configurationFailure, EXIT, StartFailure, version } from '../lib/process/program.ts';
import { PartitionsDiffer } from '../lib/redis/errors.ts';
import { PartitionedAdmin } from '../lib/redis/partitioned-admin.ts';
import { quietLog } from './check-connect.ts';
import { openWarehouseAdmin } from './warehouse-adapter.ts';

const NAME = 'ingest-admin';
const NOT_DONE = 1;
/** The commands that need a queue to be more than looked at: its metadata is made where there is none. */
const CHANGES_QUEUE: ReadonlySet<Command['kind']> = new Set(['replay', 'erase']);

const print = (text: string): void => void process.stdout.write(text);
const complain = (text: string): void => {
  for (const line of text.split('\n')) process.stderr.write(`${NAME}: ${line}\n`);
};

async function main(): Promise<number> {
  const line = readCommandLine(process.argv.slice(2), Date.now());
  if (line === 'help' || line === 'version') {
    print(line === 'help' ? HELP : `${NAME} ${version()}\n`);
    return EXIT.clean;
  }
  const { config, report } = readAdminConfig(processEnvironment(), line.command.kind !== 'size');
  for (const warning of report.warnings) complain(`warning: ${warning}`);
  if (config === undefined) throw configurationFailure(report);
  const makes = CHANGES_QUEUE.has(line.command.kind);
  const { queueUris: uris, queuePartitions: partitions } = config;
  const queue = new PartitionedAdmin({ uris, partitions, makes, log: quietLog });
  const warehouse = openWarehouseAdmin(config.warehouseUri ?? '');
  try {
    return await run(line.command, session(line, queue, warehouse));
  } finally {
    await Promise.allSettled([queue.close(), warehouse.close()]);
  }
}

function session(
  { command, json, yes }: CommandLine,
  queue: Session['queue'],
  warehouse: Session['warehouse'],
): Session {
  const stopped = stopSignal();
  return {
    queue,
    warehouse,
    json,
    print,
    tell: complain,
    stopped,
    progress: () => showProgress(process.stderr, command.kind === 'erase' ? 'entries of the queue' : 'rows'),
    confirm: async (question) => {
      if (yes) return true;
      if (!process.stdin.isTTY) throw new UsageError(`${question} There is no terminal to ask on: --yes is needed`);
      const agreed = await ask(question, stopped);
      if (!agreed) complain('nothing was changed');
      return agreed;
    },
  };
}

async function run(command: Command, now: Session): Promise<number> {
  switch (command.kind) {
    case 'status':
      return command.watch ? watch(now) : status(now);
    case 'event':
      return showEvent(now, command.id);
    case 'list':
      return listRows(now, command.filter, command.limit);
    case 'show':
      return showRow(now, command.entry);
    case 'replay':
      return replayRows(now, command.selection);
    case 'drop':
      return dropRows(now, command.selection);
    case 'erase':
      return eraseEvent(now, command.id);
    case 'size':
      return sizeFile(now, command.file);
  }
}

async function status(now: Session): Promise<number> {
  const found = await look(now);
  if (now.json) printJson(now, lookJson(found));
  else print(lookText(now, found));
  const failure = failureOf(found);
  return failure === undefined ? EXIT.clean : exitCodeOf(failure);
}

async function watch(now: Session): Promise<number> {
  await watchStatus(now, () => (process.stdout.isTTY ? process.stdout.rows : undefined));
  return EXIT.clean;
}

function exitCodeOf(cause: unknown): number {
  if (cause instanceof QueueFailed) return cause.cause instanceof PartitionsDiffer ? EXIT.configuration : EXIT.queue;
  if (cause instanceof WarehouseFailed) return EXIT.warehouse;
  if (cause instanceof StartFailure) return cause.exitCode;
  return cause instanceof UsageError ? EXIT.configuration : NOT_DONE;
}

/** Aborts at the first signal: the step under way is finished. The second one ends at once. */
function stopSignal(): AbortSignal {
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.on(signal, () => (stop.signal.aborted ? process.exit(NOT_DONE) : stop.abort()));
  return stop.signal;
}

/** Whoever reads the output may have seen enough (`| head`). */
process.stdout.on('error', () => process.exit(EXIT.clean));

try {
  process.exitCode = await main();
} catch (cause) {
  process.exitCode = exitCodeOf(cause);
  if (cause instanceof QueueFailed) complain(`the queue: ${cause.message}`);
  else if (cause instanceof WarehouseFailed) complain(`the warehouse: ${cause.message}`);
  else if (cause instanceof UsageError) complain(`${cause.message}; see --help`);
  else if (cause instanceof StartFailure) complain(cause.message);
  else complain(cause instanceof Error ? (cause.stack ?? cause.message) : String(cause));
}
// What is left, a connection that is being given up among it, must not hold the process.
process.exit();
