// `status`: shows queue, landing progress, replicas and quarantine, and names the parts that do not answer.
import { QueueFailed, type PartitionStatus, type QueueAdmin, type ServerStatus } from '../ingest/queue-admin.ts';
import { messageOf } from '../process/message-of.ts';
import { printable } from '../process/printable.ts';
import { answersOf, AttentionNeeded, printResult, type Session } from './session.ts';
import { bytesText, counted, countText, durationText, table, timeText } from './terminal.ts';

/** The queue or the warehouse, as JSON and as text, and its failure. */
interface Part {
  readonly value: unknown;
  readonly lines: readonly string[];
  readonly failure?: Error | undefined;
}

/** As in the alert IngestLandingBehind. */
const BEHIND_MS = 300_000;
/** Redis' replicas acknowledge every second. */
const SILENT_S = 3;

/** Prints every configured part that answers, then rejects if a part does not answer, or needs attention. */
export async function showStatus(session: Session): Promise<boolean> {
  const answers = session.sides.map(async (side) => {
    const { value, lines, failure } = await PARTS[side](session).catch((cause: Error): Part => {
      return { value: { error: cause.message }, lines: [`  unavailable: ${cause.message}`], failure: cause };
    });
    return { side, value, failure, text: [`${side.padEnd(9)}  ${session[side].uri}`, ...lines].join('\n') };
  });
  const parts = await Promise.all(answers);
  const values = Object.fromEntries(parts.map(({ side, value }) => [side, value]));
  const value = { at: timeText(session.clock.epochMs()), ...values };
  printResult(session, value, `${parts.map(({ text }) => text).join('\n\n')}\n`);
  const failures = parts.flatMap(({ failure }) => failure ?? []);
  const [worst] = [...failures.filter((one) => !(one instanceof AttentionNeeded)), ...failures];
  if (worst !== undefined) throw worst;
  return true;
}

/** Returns the status of the streams that answer, and the failures of the others. Rejects if none answers. */
export async function queueStatus({ streams }: QueueAdmin) {
  const { answers: found, failures } = await answersOf(streams.map((stream) => stream.status()));
  const servers = new Map<string, ServerStatus>();
  for (const { run, server } of found)
    servers.set(run, { ...server, partitions: [...(servers.get(run)?.partitions ?? []), ...server.partitions] });
  const refusing = found.flatMap(({ partition: { name, unavailable: why } }) =>
    why === undefined ? [] : [streams.length === 1 ? why : `${name}: ${why}`],
  );
  const partitions = found.map(({ partition }) => partition);
  return {
    ...{ servers: [...servers.values()], partitions, away: [...failures.map(messageOf), ...refusing] },
    hasConsumer: partitions.some(({ replicas }) => replicas.some(({ heartbeatMs }) => heartbeatMs !== undefined)),
  };
}

const PARTS: Readonly<Record<Session['sides'][number], (session: Session) => Promise<Part>>> = {
  async queue({ queue, replicasRequired }) {
    const { hasConsumer, ...status } = await queueStatus(queue);
    const { servers, partitions, away } = status;
    const lines = servers.flatMap((server) => serverLines(server, servers.length > 1, replicasRequired));
    for (const reason of away) lines.push(`  unavailable: ${reason}`);
    const head = ['partition', 'events', 'memory', 'unread', 'pending', 'oldest unlanded'];
    const rows = partitions.map(({ name, events, memoryBytes, unread, pending, oldestUnlandedMs }) => {
      const oldest = unread === 0 && pending === 0 ? '-' : durationText(oldestUnlandedMs);
      const unreadText = unread === undefined ? 'unknown' : countText(unread);
      return [name, countText(events), bytesText(memoryBytes), unreadText, countText(pending), oldest];
    });
    lines.push('', ...table([head, ...rows], [1, 2, 3, 4, 5], '  '));
    const replicas = partitions.flatMap(({ name: partition, replicas: some }) =>
      some.map(({ name, holds, heartbeatMs }) => {
        const heartbeat = heartbeatMs === undefined ? 'expired' : `${durationText(heartbeatMs)} ago`;
        return [printable(name), partition, countText(holds), heartbeat];
      }),
    );
    if (!hasConsumer) lines.push('', '  no consumer has a heartbeat');
    if (replicas.length > 0)
      lines.push('', ...table([['replica', 'partition', 'holds', 'heartbeat'], ...replicas], [2], '  '));
    const troubles = [...servers.flatMap((server) => silentCopies(server, replicasRequired)), ...unlanded(partitions)];
    const attention = troubles.length > 0 ? new AttentionNeeded(troubles.join('; ')) : undefined;
    const failure = away.length > 0 ? new QueueFailed(away.join('; ')) : attention;
    return { value: { ...status, replicasRequired, troubles }, lines, failure };
  },
  async warehouse({ warehouse }) {
    const value = await warehouse.counts();
    const { events, estimated, quarantine } = value;
    const total = quarantine.reduce((sum, { rows }) => sum + rows, 0);
    const rows = quarantine.map(({ code, rows: count }) => [countText(count), printable(code)]);
    const about = `  ${estimated ? 'about ' : ''}${counted(events, 'event')}, ${counted(total, 'quarantine row')}`;
    return { value, lines: [about, ...table(rows, [0], '    ')] };
  },
};

/** Returns why the events of these partitions do not land. */
function unlanded(partitions: readonly PartitionStatus[]): string[] {
  return partitions.flatMap(({ name, unread, pending, oldestUnlandedMs, replicas }) => {
    if (unread === 0 && pending === 0) return [];
    const events = unread === undefined ? 'an unknown number of events' : counted(unread + pending, 'event');
    const what = `${events} of ${name}`;
    if (replicas.every(({ heartbeatMs }) => heartbeatMs === undefined))
      return [
        `${what} ${unread === undefined || unread + pending > 1 ? 'wait' : 'waits'}, and no consumer has a heartbeat`,
      ];
    if (oldestUnlandedMs < BEHIND_MS) return [];
    return [`the oldest of ${what} has waited for ${durationText(oldestUnlandedMs)}`];
  });
}

function silentCopies({ name, copies, required }: ServerStatus, configured: number | undefined): string[] {
  const k = Math.max(required ?? 0, configured ?? 0);
  const silent = copies.filter(({ state, lagSeconds }) => state !== 'online' || lagSeconds > SILENT_S);
  if (copies.length - silent.length >= k || silent.length === 0) return [];
  return [
    `${name}: ${silent.length} of ${counted(copies.length, 'replica')} do not acknowledge, and ${k} must: ` +
      'gateways refuse events',
  ];
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
    ...copies.map((copy) => `    ${printable(copy.address)} ${printable(copy.state)}, lag ${copy.lagSeconds} s`),
    ...faults.map((fault) => `  warning: ${fault}`),
  ];
}
