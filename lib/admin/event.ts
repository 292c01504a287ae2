// `event ID`: shows one event, of any producer, in the queue, the warehouse and the quarantine.
import { isUtf8 } from 'node:buffer';
import { isErased } from '../ingest/erased.ts';
import { streamOf, type EntryState, type QueuedCopy } from '../ingest/queue-admin.ts';
import type { QuarantineBody } from '../ingest/warehouse-admin.ts';
import { printable, printableLines } from '../process/printable.ts';
import { printResult, type Session } from './session.ts';
import { timeText } from './terminal.ts';

export async function showEvent(session: Session, id: string): Promise<boolean> {
  const { queue, warehouse } = session;
  const stream = streamOf(queue, id);
  const failures: unknown[] = [];
  const failed = (cause: unknown): undefined => void failures.push(cause);
  const [queued, landed, rows = []] = await Promise.all([
    stream.find(id).catch(failed),
    warehouse.landed(id).catch(failed),
    warehouse.quarantineOf(id).catch(failed),
  ]);
  const parts: string[] = [];
  const value: Record<string, unknown> = { id };
  if (queued !== undefined) {
    const { stream: name, entry, producer, acceptedAtMs, body } = queued;
    const [state = 'gone'] = await stream.states([entry]);
    value['queue'] = json({ stream: name, entry, state, producer, acceptedAtMs, body });
    parts.push(partText(`queue: ${name}, entry ${entry}, ${STATES[state]}`, queued));
  }
  if (landed !== undefined) {
    const { id: _, ...row } = { ...landed, erased: isErased(landed.body) };
    value['warehouse'] = json(row);
    parts.push(partText(`warehouse: landed ${timeText(row.landedAtMs)}${row.erased ? ', erased' : ''}`, row));
  }
  value['quarantine'] = rows.map(rowJson);
  parts.push(...rows.map(rowText));
  // If the queue or the warehouse is unavailable, the other one is shown.
  if (failures.length > 0 && parts.length === 0) throw failures[0];
  printResult(session, value, parts.length === 0 ? '' : `${parts.join('\n\n')}\n`);
  if (failures.length > 0) throw failures[0];
  if (parts.length === 0 && !session.json)
    session.tell('no event with this id is in the queue, the warehouse or the quarantine');
  return parts.length > 0;
}

const STATES: Readonly<Record<EntryState, string>> = {
  unread: 'not read by a consumer yet',
  held: 'held by a consumer',
  done: 'acknowledged by a consumer',
  gone: 'no longer on the queue',
};

type Part = Pick<QueuedCopy, 'producer' | 'acceptedAtMs'> & { readonly body: Buffer | string };

const partText = (place: string, { producer = '(none)', acceptedAtMs, body }: Part): string =>
  `${place}\n  producer ${printable(producer)}, accepted ${timeText(acceptedAtMs)}\n${bodyText(Buffer.from(body))}`;

export function rowText(row: QuarantineBody): string {
  const since = timeText(row.quarantinedAtMs);
  return partText(`quarantine: ${printable(row.entry)}, since ${since}\n  ${printable(row.reason)}`, row);
}

/** Returns a row for JSON: times as text, and bytes in hexadecimal, as `bodyHex`, if they are not UTF-8. */
export const json = (row: object): object =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]: [string, unknown]) => {
      if (name.endsWith('AtMs')) return [name.slice(0, -'Ms'.length), timeText(value as number)];
      if (!Buffer.isBuffer(value)) return [name, value];
      return isUtf8(value) ? [name, value.toString()] : [`${name}Hex`, value.toString('hex')];
    }),
  );

export const rowJson = ({ bodyBytes: _, ...row }: QuarantineBody): object => json(row);

/** Returns the body as indented lines, in hexadecimal unless it is UTF-8 that a terminal can show. */
export function bodyText(body: Buffer): string {
  if (body.length === 0) return '  (no body)';
  const text = body.toString();
  if (isUtf8(body) && printableLines(text) === text) return text.replaceAll(/^/gm, '  ');
  const hex = body.toString('hex');
  return hex.replaceAll(/.{1,64}/g, '  $&\n').trimEnd();
}
