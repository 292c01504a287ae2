// `event ID`: shows one event, of any producer, in the queue, the warehouse and the quarantine.
import { isUtf8 } from 'node:buffer';
import { isErased } from '../ingest/erased.ts';
import { streamOf, type EntryState } from '../ingest/queue-admin.ts';
import type { QuarantineBody } from '../ingest/warehouse-admin.ts';
import { printable, printableLines } from '../process/printable.ts';
import { RESULT, printJson, type Result, type Session } from './session.ts';
import { timeText } from './terminal.ts';

export async function showEvent(session: Session, id: string): Promise<Result> {
  const { queue, warehouse } = session;
  const stream = streamOf(queue, id);
  const [queued, landed, quarantined] = await Promise.all([
    stream.find(id),
    warehouse.landed(id),
    warehouse.quarantineOf(id),
  ]);
  const [state = 'gone'] = queued === undefined ? [] : await stream.states([queued.entry]);
  const count = (queued === undefined ? 0 : 1) + (landed === undefined ? 0 : 1) + quarantined.length;
  if (session.json) {
    printJson(session, {
      id,
      queue: queued && {
        stream: queued.stream,
        entry: queued.entry,
        state,
        producer: queued.producer,
        acceptedAt: timeText(queued.acceptedAtMs),
        ...bodyJson(queued.body),
      },
      warehouse: landed && {
        producer: landed.producer,
        type: landed.type,
        acceptedAt: timeText(landed.acceptedAtMs),
        landedAt: timeText(landed.landedAtMs),
        erased: isErased(landed.body),
        body: landed.body,
      },
      quarantine: quarantined.map(rowJson),
    });
  } else if (count > 0) {
    const parts: string[] = [];
    if (queued !== undefined) {
      const { stream, entry, producer = '(none)', acceptedAtMs, body } = queued;
      const place = `queue: ${stream}, entry ${entry}, ${STATES[state]}`;
      parts.push([place, about(producer, acceptedAtMs), bodyText(body)].join('\n'));
    }
    if (landed !== undefined) {
      const { producer, acceptedAtMs, landedAtMs, body } = landed;
      const place = `warehouse: landed ${timeText(landedAtMs)}${isErased(body) ? ', erased' : ''}`;
      parts.push([place, about(producer, acceptedAtMs), bodyText(Buffer.from(body))].join('\n'));
    }
    for (const row of quarantined) parts.push(rowText(row));
    session.print(`${parts.join('\n\n')}\n`);
  } else session.tell('no event with this id is in the queue, the warehouse or the quarantine');
  return count === 0 ? RESULT.nothing : RESULT.done;
}

const STATES: Readonly<Record<EntryState, string>> = {
  unread: 'not read by a consumer yet',
  held: 'held by a consumer',
  done: 'acknowledged by a consumer',
  gone: 'no longer on the queue',
};

const about = (producer: string, acceptedAtMs: number): string =>
  `  producer ${printable(producer)}, accepted ${timeText(acceptedAtMs)}`;

export const rowText = (row: QuarantineBody): string =>
  [
    `quarantine: ${printable(row.entry)}, since ${timeText(row.quarantinedAtMs)}`,
    `  ${printable(row.reason)}`,
    about(row.producer, row.acceptedAtMs),
    bodyText(row.body),
  ].join('\n');

export const rowJson = (row: QuarantineBody): Readonly<Record<string, unknown>> => ({
  entry: row.entry,
  id: row.id,
  traceparent: row.traceparent,
  producer: row.producer,
  reason: row.reason,
  acceptedAt: timeText(row.acceptedAtMs),
  quarantinedAt: timeText(row.quarantinedAtMs),
  ...bodyJson(row.body),
});

const HEX_LINE_BYTES = 32;

/** True for UTF-8 without control characters other than tab and line break. */
const isText = (body: Buffer): boolean =>
  isUtf8(body) && printableLines(body.toString('utf8')) === body.toString('utf8');

/** Returns the body as indented lines, in hexadecimal if it is not text. */
export function bodyText(body: Buffer): string {
  if (body.length === 0) return '  (no body)';
  if (isText(body)) return body.toString('utf8').replaceAll(/^/gm, '  ');
  const lines: string[] = [];
  for (let at = 0; at < body.length; at += HEX_LINE_BYTES)
    lines.push(`  ${body.subarray(at, at + HEX_LINE_BYTES).toString('hex')}`);
  return lines.join('\n');
}

/** Returns `body`, or `bodyHex` if the body is not UTF-8. */
export const bodyJson = (body: Buffer): { readonly body: string } | { readonly bodyHex: string } =>
  isUtf8(body) ? { body: body.toString('utf8') } : { bodyHex: body.toString('hex') };
