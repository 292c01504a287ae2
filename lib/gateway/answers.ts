// The answers that several handlers share.
import { problem, type Refusal } from '../ingest/errors.ts';
import type { RequestDefect } from '../http/request.ts';
import type { Answer } from '../http/respond.ts';

/** `refusal`: the row of the error catalogue that it is made from; it counts as that. */
export interface GatewayAnswer extends Answer {
  readonly refusal?: Refusal;
}

/** The result of a handler. `taken`: the handler keeps the exchange and calls its `answer` once. */
export type Answering = GatewayAnswer | 'taken' | Promise<GatewayAnswer | 'taken'>;

export const JSON_TYPE = 'application/json';

/** The answers to requests that are readable but ambiguous: another reader could take them for something else. */
export const DEFECTS: Readonly<Record<RequestDefect, GatewayAnswer>> = {
  host: problem('invalidEvent', 'expected exactly one well-formed Host field'),
  transferCoding: problem('invalidEvent', 'expected no Transfer-Encoding but chunked'),
  repeatedField: problem('invalidEvent', 'expected one Content-Type and one Authorization field at most'),
  version: problem('invalidEvent', 'expected HTTP/1.1 or HTTP/1.0'),
};
