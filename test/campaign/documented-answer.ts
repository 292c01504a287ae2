// Compares an answer to `POST /events` with openapi/events.yaml.
import { isDeepStrictEqual } from 'node:util';
import { RESPONSES } from '../support/api-file.ts';
import type { Reply } from '../support/client.ts';
import type { Told } from './ledger.ts';
import { DISPATCHER } from './settings.ts';

const DOCUMENTED = new Map(
  RESPONSES.filter(({ scope }) => scope === 'POST /events').map((response) => [response.status, response]),
);

export interface Judged {
  readonly told: Told;
  readonly retryable: boolean;
  readonly fault: string | undefined;
}

export function judged(reply: Reply, id: string, requestId: string): Judged {
  const { status, json: body } = reply;
  const told: Told = {
    status,
    code: typeof body?.['code'] === 'string' ? body['code'] : undefined,
    duplicate: body?.['duplicate'] === true,
    differs: body?.['differs'] === true,
  };
  if (DISPATCHER && body?.['status'] === 'shed') return shed(reply, id);
  return { told, retryable: body?.['retryable'] === true, fault: faultOf(reply, id, requestId) };
}

/** The status `shed` of RFC 014 is not an acceptance, so the ledger records a refusal. */
function shed({ status, json }: Reply, id: string): Judged {
  const told: Told = { status: 503, code: 'INGEST_SHED', duplicate: false, differs: false };
  const wanted = { id, status: 'shed', code: 'INGEST_SHED', retryable: true };
  const good = status === 202 && isDeepStrictEqual(json, wanted);
  return { told, retryable: true, fault: good ? undefined : 'it is shed in another form' };
}

function faultOf({ status, headers, json: body }: Reply, id: string, requestId: string): string | undefined {
  const documented = DOCUMENTED.get(status);
  if (documented === undefined) return 'the status is not documented';
  const type = headers['content-type']?.split(';')[0];
  if (type !== documented.mediaType) return `the content type is ${type}`;
  if (body === undefined || documented.check(body) !== true) return 'the body does not follow its schema';
  if (headers['x-request-id'] !== requestId) return 'X-Request-Id is not the request’s';
  if (status === 202 && body['id'] !== id) return 'the id is another one';
  if (status !== 202 && typeof body['retryable'] !== 'boolean') return 'it does not say whether to retry';
  return undefined;
}
