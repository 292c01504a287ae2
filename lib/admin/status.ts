// `status`: shows queue, landing progress, replicas and quarantine, and names the parts that do not answer.
import {
  QueueFailed,
  type PartitionStatus,
  type QueueAdmin,
  type ReplicaStatus,
  type ServerStatus,
} from '../ingest/queue-admin.ts';
import { WarehouseFailed } from '../ingest/warehouse-admin.ts';
import { messageOf } from '../process/message-of.ts';
import { printable } from '../process/printable.ts';
import { answersOf, printResult, type Session } from './session.ts';
import { bytesText, counted, countText, durationText, table, timeText } from './terminal.ts';

interface QueueStatus {
  readonly servers: readonly ServerStatus[];
  readonly partitions: readonly PartitionStatus[];
  readonly away: readonly string[];
}

/** The queue or the warehouse, as JSON and as text, and its failure. */
interface Part {
  readonly value: unknown;
  readonly lines: readonly string[];
  readonly failure?: Error | undefined;
}

/** Prints every configured part that answers, then rejects if a part of the queue or the warehouse does not. */
export async function showStatus(session: Session): Promise<boolean> {
  const { sides } = session;
  const [queue, warehouse] = await Promise.all([
    sides.includes('queue') ? queuePart(session).catch(unavailable(QueueFailed)) : undefined,
    sides.includes('warehouse') ? warehousePart(session).catch(unavailable(WarehouseFailed)) : undefined,
  ]);
  const parts = [
    ...(queue === undefined ? [] : [[`queue      ${session.queue.place}`, ...queue.lines]]),
    ...(warehouse === undefined ? [] : [[`warehouse  ${session.warehouse.place}`, ...warehouse.lines]]),
  ];
  const value = { at: timeText(session.clock.epochMs()), queue: queue?.value, warehouse: warehouse?.value };
  printResult(session, value, `${parts.map((lines) => lines.join('\n')).join('\n\n')}\n`);
  const failure = queue?.failure ?? warehouse?.failure;
  if (failure !== undefined) throw failure;
  return true;
}

const unavailable =
  (kind: new (message: string) => Error) =>
  (cause: unknown): Part => {
    if (!(cause instanceof kind)) throw cause;
    return { value: { error: cause.message }, lines: [`  unavailable: ${cause.message}`], failure: cause };
  };

/** Returns the status of the streams that answer, and the failures of the others. Rejects if none answers. */
export async function queueStatus({ streams }: QueueAdmin): Promise<QueueStatus> {
  const { found, failures } = await answersOf(streams.map((stream) => stream.status()));
  const servers = new Map<string, ServerStatus>();
  for (const { run, server } of found)
    servers.set(run, { ...server, partitions: [...(servers.get(run)?.partitions ?? []), ...server.partitions] });
  const refusing = found.flatMap(({ partition: { name, unavailable: why } }) =>
    why === undefined ? [] : [streams.length === 1 ? why : `${name}: ${why}`],
  );
  return {
    servers: [...servers.values()],
    partitions: found.map(({ partition }) => partition),
    away: [...failures.map(messageOf), ...refusing],
  };
}

export const isAlive = ({ heartbeatMs }: Pick<ReplicaStatus, 'heartbeatMs'>): boolean => heartbeatMs !== undefined;

async function queuePart({ queue, replicasRequired }: Session): Promise<Part> {
  const status = await queueStatus(queue);
  const { servers, partitions, away } = status;
  const lines = servers.flatMap((server) => serverLines(server, servers.length > 1, replicasRequired));
  for (const reason of away) lines.push(`  unavailable: ${reason}`);
  const head = ['partition', 'events', 'memory', 'unread', 'pending', 'oldest unlanded'];
  const rows = partitions.map((one) => [
    one.name,
    countText(one.events),
    bytesText(one.memoryBytes),
    countText(one.unread),
    countText(one.pending),
    one.unread + one.pending === 0 ? '-' : durationText(one.oldestUnlandedMs),
  ]);
  lines.push('', ...table([head, ...rows], [1, 2, 3, 4, 5], '  '));
  const replicas = partitions.flatMap(({ name, replicas: some }) => some.map((one) => ({ partition: name, ...one })));
  if (!replicas.some(isAlive)) lines.push('', '  no consumer is running');
  const shown = replicas.map(({ partition, name, holds, heartbeatMs }) => [
    printable(name),
    partition,
    countText(holds),
    heartbeatMs === undefined ? 'expired' : `${durationText(heartbeatMs)} ago`,
  ]);
  if (shown.length > 0) lines.push('', ...table([['replica', 'partition', 'holds', 'heartbeat'], ...shown], [2], '  '));
  const failure = away.length > 0 ? new QueueFailed(away.join('; ')) : undefined;
  return { value: { ...status, replicasRequired }, lines, failure };
}

/** `many`: there are several servers, so the partitions of each are named. `required` is k. */
function serverLines(server: ServerStatus, many: boolean, required: number | undefined): string[] {
  const { name, partitions, memoryBytes, memoryLimitBytes = 0, faults, role, port, copies } = server;
  const limit = memoryLimitBytes === 0 ? '' : ` of ${bytesText(memoryLimitBytes)}`;
  const place = many ? ` with ${partitions.join(', ')}` : '';
  const k = required === undefined ? '' : `, and INGEST_QUEUE_REPLICAS requires ${required}`;
  return [
    `  ${name}${place}, ${bytesText(memoryBytes)}${limit} of memory in use`,
    ...(role === undefined ? [] : [`  ${role} on port ${port} with ${counted(copies.length, 'replica')}${k}`]),
    ...copies.map(
      ({ address, state, lagSeconds }) => `    ${printable(address)} ${printable(state)}, lag ${lagSeconds} s`,
    ),
    ...faults.map((fault) => `  warning: ${fault}`),
  ];
}

async function warehousePart({ warehouse }: Session): Promise<Part> {
  const value = await warehouse.counts();
  const { events, estimated, quarantine } = value;
  const total = quarantine.reduce((sum, { rows }) => sum + rows, 0);
  const rows = quarantine.map(({ code, rows: count }) => [countText(count), printable(code)]);
  const about = `  ${estimated ? 'about ' : ''}${counted(events, 'event')}, ${counted(total, 'quarantine row')}`;
  return { value, lines: [about, ...table(rows, [0], '    ')] };
}
