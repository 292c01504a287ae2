// Answers that several handlers share.
import { problem, type Refusal } from '../ingest/errors.ts';
import { FIELDS_MAX } from '../http/node-request.ts';
import type { RequestDefect } from '../http/request.ts';
import type { Answer } from '../http/respond.ts';

/** `refusal` names the row of the error catalog under which the answer is counted. */
export interface GatewayAnswer extends Answer {
  readonly refusal?: Refusal;
}

/** The result of a handler. After `taken`, the handler must call the exchange's `answer` once. */
export type Answering = GatewayAnswer | 'taken' | Promise<GatewayAnswer | 'taken'>;

export const JSON_TYPE = 'application/json';

/** Answers to ambiguous requests, which another HTTP parser could interpret differently. */
export const DEFECTS: Readonly<Record<RequestDefect, GatewayAnswer>> = {
  host: problem('invalidEvent', 'expected exactly one well-formed Host field'),
  transferCoding: problem('invalidEvent', 'expected no Transfer-Encoding but chunked'),
  repeatedField: problem('invalidEvent', 'expected one Content-Type and one Authorization field at most'),
  version: problem('invalidEvent', 'expected HTTP/1.1 or HTTP/1.0'),
  tooManyFields: problem('headersTooLarge', `expected at most ${FIELDS_MAX} header fields`),
};
