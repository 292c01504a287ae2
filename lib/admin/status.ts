// `status`: shows queue, landing progress, replicas and quarantine, and names the parts that do not answer.
import {
  QueueFailed,
  type PartitionStatus,
  type QueueAdmin,
  type ServerStatus,
  type StreamStatus,
} from '../ingest/queue-admin.ts';
import { WarehouseFailed, type WarehouseCounts } from '../ingest/warehouse-admin.ts';
import { printable } from '../process/printable.ts';
import { answersOf, RESULT, printResult, type Result, type Session } from './session.ts';
import { bytesText, counted, countText, durationText, table, timeText } from './terminal.ts';

interface QueueStatus {
  readonly servers: readonly ServerStatus[];
  readonly partitions: readonly PartitionStatus[];
  readonly away: readonly string[];
  readonly replicasRequired?: number | undefined;
}

/** Prints every configured part that answers, then rejects if a part of the queue or the warehouse does not. */
export async function showStatus(session: Session): Promise<Result> {
  const { sides } = session;
  const { replicasRequired } = session;
  const [queue, warehouse] = await Promise.all([
    sides.includes('queue')
      ? queueStatus(session.queue)
          .then((status) => ({ ...status, replicasRequired }))
          .catch(failureOf(QueueFailed))
      : undefined,
    sides.includes('warehouse') ? session.warehouse.counts().catch(failureOf(WarehouseFailed)) : undefined,
  ]);
  const text: string[] = [];
  if (queue !== undefined)
    text.push(
      [`queue      ${session.queue.place}`, ...(queue instanceof QueueFailed ? [away(queue)] : queueLines(queue))].join(
        '\n',
      ),
    );
  if (warehouse !== undefined)
    text.push(
      [
        `warehouse  ${session.warehouse.place}`,
        ...(warehouse instanceof WarehouseFailed ? [away(warehouse)] : warehouseLines(warehouse)),
      ].join('\n'),
    );
  const value = {
    at: timeText(session.clock.epochMs()),
    queue: queue instanceof QueueFailed ? { error: queue.message } : queue,
    warehouse: warehouse instanceof WarehouseFailed ? { error: warehouse.message } : warehouse,
  };
  printResult(session, value, `${text.join('\n\n')}\n`);
  if (queue instanceof QueueFailed) throw queue;
  if (queue !== undefined && queue.away.length > 0) throw new QueueFailed(queue.away.join('; '));
  if (warehouse instanceof WarehouseFailed) throw warehouse;
  return RESULT.done;
}

const failureOf =
  <F extends Error>(kind: new (message: string) => F) =>
  (cause: unknown): F => {
    if (cause instanceof kind) return cause;
    throw cause;
  };

/** Returns the status of the streams that answer, and the failures of the others. Rejects if none answers. */
export async function queueStatus({ streams }: QueueAdmin): Promise<QueueStatus> {
  const { found, failures } = await answersOf(streams.map((stream) => stream.status()));
  const servers = [...Map.groupBy(found, ({ run }) => run).values()].map((same) => ({
    ...(same[0] as StreamStatus).server,
    partitions: same.flatMap(({ server }) => server.partitions),
  }));
  return {
    servers,
    partitions: found.map(({ partition }) => partition),
    away: [
      ...failures.map((cause) => (cause instanceof QueueFailed ? cause.message : String(cause))),
      ...found.flatMap(({ partition: { name, unavailable } }) =>
        unavailable === undefined ? [] : [streams.length === 1 ? unavailable : `${name}: ${unavailable}`],
      ),
    ],
  };
}

const away = (cause: Error): string => `  unavailable: ${cause.message}`;

function queueLines(status: QueueStatus): string[] {
  const { servers, partitions, replicasRequired } = status;
  const lines = servers.flatMap((server) => serverLines(server, servers.length > 1, replicasRequired));
  for (const reason of status.away) lines.push(`  unavailable: ${reason}`);
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
  if (replicas.every(({ heartbeatMs }) => heartbeatMs === undefined)) lines.push('', '  no consumer is running');
  if (replicas.length > 0) {
    const shown = replicas.map(({ partition, name, holds, heartbeatMs }) => [
      printable(name),
      partition,
      countText(holds),
      heartbeatMs === undefined ? 'expired' : `${durationText(heartbeatMs)} ago`,
    ]);
    lines.push('', ...table([['replica', 'partition', 'holds', 'heartbeat'], ...shown], [2], '  '));
  }
  return lines;
}

/** `many`: there are several servers, so the partitions of each are named. `required` is k. */
function serverLines(server: ServerStatus, many: boolean, required: number | undefined): string[] {
  const { name, partitions, memoryBytes, memoryLimitBytes, faults, role, port, copies } = server;
  const limit = memoryLimitBytes === undefined || memoryLimitBytes === 0 ? '' : ` of ${bytesText(memoryLimitBytes)}`;
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

function warehouseLines({ events, estimated, quarantine }: WarehouseCounts): string[] {
  const total = quarantine.reduce((sum, { rows }) => sum + rows, 0);
  const rows = quarantine.map(({ code, rows: count }) => [countText(count), printable(code)]);
  return [
    `  ${estimated ? 'about ' : ''}${counted(events, 'event')}, ${counted(total, 'quarantine row')}`,
    ...table(rows, [0], '    '),
  ];
}
