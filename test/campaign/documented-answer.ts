// Compares an answer to `POST /events` with openapi/events.yaml.
import { isDeepStrictEqual } from 'node:util';
import { RESPONSES } from '../support/api-file.ts';
import type { Told } from './ledger.ts';
import { DISPATCHER } from './settings.ts';

const DOCUMENTED = new Map(
  RESPONSES.filter(({ scope }) => scope === 'POST /events').map((response) => [response.status, response]),
);

export interface RawAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly requestId: string | undefined;
  readonly text: string;
}

export interface Judged {
  readonly told: Told;
  readonly retryable: boolean;
  readonly fault: string | undefined;
}

export function judged(raw: RawAnswer, id: string, requestId: string): Judged {
  const body = parsed(raw.text);
  const told: Told = {
    status: raw.status,
    code: typeof body?.['code'] === 'string' ? body['code'] : undefined,
    duplicate: body?.['duplicate'] === true,
    differs: body?.['differs'] === true,
  };
  if (DISPATCHER && body?.['status'] === 'shed') return shed(raw, body, id);
  return { told, retryable: body?.['retryable'] === true, fault: faultOf(raw, body, id, requestId) };
}

/** The status `shed` of RFC 014 is not an acceptance, so the ledger records a refusal. */
function shed({ status }: RawAnswer, body: Body, id: string): Judged {
  const told: Told = { status: 503, code: 'INGEST_SHED', duplicate: false, differs: false };
  const wanted = { id, status: 'shed', code: 'INGEST_SHED', retryable: true };
  const good = status === 202 && isDeepStrictEqual(body, wanted);
  return { told, retryable: true, fault: good ? undefined : 'it is shed in another form' };
}

function faultOf(raw: RawAnswer, body: Body | undefined, id: string, requestId: string): string | undefined {
  const documented = DOCUMENTED.get(raw.status);
  if (documented === undefined) return 'the status is not documented';
  if (raw.contentType.split(';')[0] !== documented.mediaType) return `the content type is ${raw.contentType}`;
  if (body === undefined || documented.check(body) !== true) return 'the body does not follow its schema';
  if (raw.requestId !== requestId) return 'X-Request-Id is not the request’s';
  if (raw.status === 202 && body['id'] !== id) return 'the id is another one';
  if (raw.status !== 202 && typeof body['retryable'] !== 'boolean') return 'it does not say whether to retry';
  return undefined;
}

type Body = Readonly<Record<string, unknown>>;

function parsed(text: string): Body | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Body) : undefined;
  } catch {
    return undefined;
  }
}
