// `event ID`: shows one event, of any producer, in the queue, the warehouse and the quarantine.
import { isUtf8 } from 'node:buffer';
import { isErased } from '../ingest/erased.ts';
import { streamOf, type EntryState } from '../ingest/queue-admin.ts';
import type { QuarantineBody, QuarantineRow } from '../ingest/warehouse-admin.ts';
import { printable, printableLines } from '../process/printable.ts';
import { printResult, type Session } from './session.ts';
import { timeText } from './terminal.ts';

export async function showEvent(session: Session, id: string): Promise<boolean> {
  const { queue, warehouse } = session;
  const stream = streamOf(queue, id);
  const failures: unknown[] = [];
  const failed = (cause: unknown): undefined => void failures.push(cause);
  const [queued, landed, quarantined = []] = await Promise.all([
    stream.find(id).catch(failed),
    warehouse.landed(id).catch(failed),
    warehouse.quarantineOf(id).catch(failed),
  ]);
  const parts: string[] = [];
  let queuedJson: object | undefined;
  let landedJson: object | undefined;
  if (queued !== undefined) {
    const { stream: name, entry, producer, acceptedAtMs, body } = queued;
    const [state = 'gone'] = await stream.states([entry]);
    const place = { stream: name, entry, state, producer, acceptedAt: timeText(acceptedAtMs) };
    queuedJson = { ...place, ...bytesJson(body) };
    parts.push(partText(`queue: ${name}, entry ${entry}, ${STATES[state]}`, queued));
  }
  if (landed !== undefined) {
    const { producer, type, acceptedAtMs, landedAtMs, body } = landed;
    const [acceptedAt, landedAt, erased] = [timeText(acceptedAtMs), timeText(landedAtMs), isErased(body)];
    landedJson = { producer, type, acceptedAt, landedAt, erased, body };
    parts.push(partText(`warehouse: landed ${landedAt}${erased ? ', erased' : ''}`, landed));
  }
  parts.push(...quarantined.map(rowText));
  const value = { id, queue: queuedJson, warehouse: landedJson, quarantine: quarantined.map(bodyJson) };
  // If the queue or the warehouse is unavailable, the other one is shown.
  if (failures.length > 0 && parts.length === 0) throw failures[0];
  printResult(session, value, parts.length === 0 ? '' : `${parts.join('\n\n')}\n`);
  if (parts.length === 0 && !session.json)
    session.tell('no event with this id is in the queue, the warehouse or the quarantine');
  if (failures.length > 0) throw failures[0];
  return parts.length > 0;
}

const STATES: Readonly<Record<EntryState, string>> = {
  unread: 'not read by a consumer yet',
  held: 'held by a consumer',
  done: 'acknowledged by a consumer',
  gone: 'no longer on the queue',
};

interface Part {
  readonly producer: string | undefined;
  readonly acceptedAtMs: number;
  readonly body: Buffer | string;
}

const partText = (place: string, { producer = '(none)', acceptedAtMs, body }: Part): string =>
  `${place}\n  producer ${printable(producer)}, accepted ${timeText(acceptedAtMs)}\n${bodyText(Buffer.from(body))}`;

export const rowText = (row: QuarantineBody): string =>
  partText(
    `quarantine: ${printable(row.entry)}, since ${timeText(row.quarantinedAtMs)}\n  ${printable(row.reason)}`,
    row,
  );

type Times = 'acceptedAtMs' | 'quarantinedAtMs';

export const rowJson = <R extends Pick<QuarantineRow, Times>>({ acceptedAtMs, quarantinedAtMs, ...row }: R) => ({
  ...row,
  acceptedAt: timeText(acceptedAtMs),
  quarantinedAt: timeText(quarantinedAtMs),
});

export const bodyJson = ({ body, bodyBytes: _, ...row }: QuarantineBody) => ({ ...rowJson(row), ...bytesJson(body) });

const HEX_LINE = /.{1,64}/g;

/** True for UTF-8 without control characters other than tab and line break. */
const isText = (body: Buffer): boolean =>
  isUtf8(body) && printableLines(body.toString('utf8')) === body.toString('utf8');

/** Returns the body as indented lines, in hexadecimal if it is not text. */
export function bodyText(body: Buffer): string {
  if (body.length === 0) return '  (no body)';
  if (isText(body)) return body.toString('utf8').replaceAll(/^/gm, '  ');
  return body.toString('hex').replaceAll(HEX_LINE, '  $&\n').trimEnd();
}

/** Returns `body`, or `bodyHex` if the body is not UTF-8. */
export const bytesJson = (body: Buffer): { readonly body: string } | { readonly bodyHex: string } =>
  isUtf8(body) ? { body: body.toString('utf8') } : { bodyHex: body.toString('hex') };
