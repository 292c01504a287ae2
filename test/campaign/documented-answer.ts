// Compares an answer to `POST /events` with openapi/events.yaml.
import assert from 'node:assert/strict';
import type { Reply } from '../support/client.ts';
import { Transcript } from '../support/transcript.ts';
import type { Told } from './ledger.ts';

export interface Judged {
  readonly told: Told;
  readonly retryable: boolean;
  readonly fault: string | undefined;
}

const transcript = new Transcript();

export function judged(reply: Reply, id: string, requestId: string): Judged {
  const { status, headers, json: body = {} } = reply;
  const { code } = body;
  const told = {
    ...{ status, code: typeof code === 'string' ? code : undefined },
    ...{ duplicate: body['duplicate'] === true, differs: body['differs'] === true },
  };
  let fault: string | undefined;
  try {
    transcript.hold('POST /events', reply);
    assert.equal(headers['x-request-id'], requestId, 'X-Request-Id is not the request’s');
    if (status === 202) assert.equal(body['id'], id, 'the id is another one');
    else assert.equal(typeof body['retryable'], 'boolean', 'it does not say whether to retry');
  } catch (cause) {
    fault = (cause as Error).message;
  }
  return { told, retryable: body['retryable'] === true, fault };
}
