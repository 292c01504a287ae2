// `status`: how much the queue holds and how far landing is, as one look, for people or for programs.
//
// A part that is unreachable is named in its place; the rest is shown nevertheless.
import { QueueFailed, type PartitionStatus, type QueueStatus, type ServerStatus } from '../ingest/queue-admin.ts';
import { WarehouseFailed, type WarehouseCounts } from '../ingest/warehouse-admin.ts';
import { printable, printableLines } from '../process/printable.ts';
import { printJson, type Session } from './session.ts';
import { bytesText, counted, countText, durationText, table, timeText } from './text.ts';

const INTERVAL_MS = 1_000;
const HOME = '\x1b[H';
const CLEAR_LINE = '\x1b[K';
const CLEAR_BELOW = '\x1b[J';
const OTHER_SCREEN = '\x1b[?1049h\x1b[?25l';
const BACK = '\x1b[?25h\x1b[?1049l';

export interface Look {
  readonly atMs: number;
  readonly queue: QueueStatus | QueueFailed;
  readonly warehouse: WarehouseCounts | WarehouseFailed;
}

/** Rejects never for what is away. */
export async function look({ queue, warehouse, clock }: Pick<Session, 'queue' | 'warehouse' | 'clock'>): Promise<Look> {
  const [queueLook, warehouseLook] = await Promise.all([
    queue.status().catch((cause: unknown) => {
      if (cause instanceof QueueFailed) return cause;
      throw cause;
    }),
    warehouse.counts().catch((cause: unknown) => {
      if (cause instanceof WarehouseFailed) return cause;
      throw cause;
    }),
  ]);
  return { atMs: clock.epochMs(), queue: queueLook, warehouse: warehouseLook };
}

/** What is away, also in part; the queue before the warehouse. */
export function failureOf({ queue, warehouse }: Look): QueueFailed | WarehouseFailed | undefined {
  if (queue instanceof QueueFailed) return queue;
  if (queue.away.length > 0) return new QueueFailed(queue.away.join('; '));
  return warehouse instanceof WarehouseFailed ? warehouse : undefined;
}

/** For programs. */
export function lookJson({ atMs, queue, warehouse }: Look): Readonly<Record<string, unknown>> {
  return {
    at: timeText(atMs),
    queue: queue instanceof QueueFailed ? { error: queue.message } : queue,
    warehouse: warehouse instanceof WarehouseFailed ? { error: warehouse.message } : warehouse,
  };
}

/** For people: some lines. */
export function lookText(session: Pick<Session, 'queue' | 'warehouse'>, { queue, warehouse }: Look): string {
  const lines = [
    `queue      ${session.queue.place}`,
    ...(queue instanceof QueueFailed ? [away(queue)] : queueLines(queue)),
  ];
  lines.push('', `warehouse  ${session.warehouse.place}`);
  lines.push(...(warehouse instanceof WarehouseFailed ? [away(warehouse)] : warehouseLines(warehouse)));
  return `${lines.join('\n')}\n`;
}

/** One line, for a log of looks. */
export function lookLine({ atMs, queue, warehouse }: Look): string {
  const fields = [timeText(atMs)];
  if (queue instanceof QueueFailed) fields.push('queue=away');
  else {
    const { partitions } = queue;
    const sum = (value: (one: PartitionStatus) => number): number =>
      partitions.reduce((total, one) => total + value(one), 0);
    fields.push(
      `events=${sum(({ events }) => events)}`,
      `unread=${sum(({ unread }) => unread)}`,
      `pending=${sum(({ pending }) => pending)}`,
      `oldest=${(Math.max(0, ...partitions.map((one) => one.oldestUnlandedMs)) / 1_000).toFixed(1)}s`,
      `replicas=${living(queue)}`,
      `memory=${memoryOf(queue) ?? 'unknown'}`,
      ...(queue.away.length > 0 ? [`away=${queue.away.length}`] : []),
    );
  }
  if (warehouse instanceof WarehouseFailed) fields.push('warehouse=away');
  else {
    const quarantined = warehouse.quarantine.reduce((total, { rows }) => total + rows, 0);
    fields.push(`rows=${warehouse.events}`, `quarantine=${quarantined}`);
  }
  return fields.join(' ');
}

const away = (cause: Error): string => `  away: ${cause.message}`;

/** What all servers have in memory together; undefined where one does not tell. */
function memoryOf({ servers }: QueueStatus): number | undefined {
  const known = servers.flatMap(({ memoryBytes }) => (memoryBytes === undefined ? [] : [memoryBytes]));
  return known.length < servers.length ? undefined : known.reduce((sum, bytes) => sum + bytes, 0);
}

function living({ partitions }: QueueStatus): number {
  const names = partitions.flatMap(({ replicas }) => replicas.filter(({ signMs }) => signMs !== undefined));
  return new Set(names.map(({ name }) => name)).size;
}

function queueLines(status: QueueStatus): string[] {
  const { servers, partitions } = status;
  const lines = servers.flatMap((server) => serverLines(server, servers.length > 1));
  for (const reason of status.away) lines.push(`  away: ${reason}`);
  const head = ['partition', 'events', 'memory', 'unread', 'pending', 'oldest unlanded'];
  const rows = partitions.map((one) => [
    one.name,
    countText(one.events),
    bytesText(one.memoryBytes),
    countText(one.unread),
    countText(one.pending),
    one.unread + one.pending === 0 ? '-' : durationText(one.oldestUnlandedMs),
  ]);
  lines.push('', ...table([head, ...rows], [1, 2, 3, 4, 5]).map((line) => `  ${line}`));
  const replicas = partitions.flatMap(({ name, replicas: some }) => some.map((one) => ({ partition: name, ...one })));
  if (living(status) === 0) lines.push('', '  no consumer gives a sign of life');
  if (replicas.length > 0) {
    const shown = replicas.map(({ partition, name, holds, signMs }) => [
      printable(name),
      partition,
      countText(holds),
      signMs === undefined ? 'none any more' : `${durationText(signMs)} ago`,
    ]);
    lines.push(
      '',
      ...table([['replica', 'partition', 'holds', 'sign of life'], ...shown], [2]).map((line) => `  ${line}`),
    );
  }
  return lines;
}

/** `many`: which partitions it holds is said too. */
function serverLines(
  { name, partitions, memoryBytes, memoryLimitBytes, faults }: ServerStatus,
  many: boolean,
): string[] {
  const limit = memoryLimitBytes === undefined || memoryLimitBytes === 0 ? '' : ` of ${bytesText(memoryLimitBytes)}`;
  const place = many ? ` with ${partitions.join(', ')}` : '';
  return [
    `  ${name}${place}, ${bytesText(memoryBytes)}${limit} of memory in use`,
    ...faults.map((fault) => `  warning: ${fault}`),
  ];
}

function warehouseLines({ events, estimated, quarantine }: WarehouseCounts): string[] {
  const total = quarantine.reduce((sum, { rows }) => sum + rows, 0);
  const lines = [`  ${estimated ? 'about ' : ''}${counted(events, 'event')}, ${counted(total, 'quarantine row')}`];
  lines.push(
    ...table(
      quarantine.map(({ code, rows }) => [countText(rows), printable(code)]),
      [0],
    ).map((line) => `    ${line}`),
  );
  return lines;
}

/**
 * A look each second, until a signal: on a terminal one screen that is drawn again in its place, elsewhere lines.
 * `rows` of the terminal, asked for each time; undefined where there is none.
 */
export async function watchStatus(session: Session, rows: () => number | undefined): Promise<void> {
  const screen = !session.json && rows() !== undefined;
  if (screen) session.draw(OTHER_SCREEN);
  try {
    while (!session.stopped.aborted) {
      const now = await look(session);
      if (session.stopped.aborted) break;
      if (session.json) printJson(session, lookJson(now));
      else if (screen)
        session.draw(
          frame(`${timeText(now.atMs)}   Ctrl-C ends\n\n${printableLines(lookText(session, now))}`, rows() ?? 0),
        );
      else session.print(`${lookLine(now)}\n`);
      await session.clock.sleep(INTERVAL_MS, session.stopped);
    }
  } finally {
    if (screen) session.draw(BACK);
  }
}

/**
 * Drawn over the last one, line by line, so that nothing flickers; what does not fit is left out. A terminal of 0 rows
 * does not tell.
 */
function frame(text: string, rows: number): string {
  const lines = text
    .trimEnd()
    .split('\n')
    .slice(0, rows === 0 ? undefined : Math.max(1, rows - 1));
  return `${HOME}${lines.map((line) => `${line}${CLEAR_LINE}`).join('\n')}\n${CLEAR_BELOW}`;
}
