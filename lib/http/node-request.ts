// The head of a request that node:http has read.
import type { IncomingMessage } from 'node:http';
import type { HeaderField, RequestDefect, RequestHead } from './request.ts';

/** Maximum number of header fields. */
export const FIELDS_MAX = 100;

export function headOf(message: IncomingMessage): RequestHead {
  const { method = '', url = '', headers, headersDistinct } = message;
  const length = headers['content-length'];
  const requestIds = headersDistinct['x-request-id'];
  const cloudEventFields = Object.entries(headersDistinct)
    .filter(([name]) => name.startsWith('ce-'))
    .flatMap(([name, values = []]) => values.map((value): HeaderField => [name, value]));
  return {
    method,
    target: url,
    defect: defectOf(message),
    contentType: headers['content-type'],
    contentEncoding: headers['content-encoding'],
    contentLength: length === undefined ? undefined : Number(length),
    authorization: headers.authorization,
    cloudEventFields: cloudEventFields.length > 0 ? cloudEventFields : undefined,
    // Node joins the values of a repeated field.
    traceparent: headers['traceparent'] as string | undefined,
    tracestate: headers['tracestate'] as string | undefined,
    requestId: requestIds?.length === 1 ? requestIds[0] : undefined,
  };
}

/** A name, an IPv4 address, or an IPv6 address in brackets, with an optional port (RFC 9112, section 3.2). */
const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]+)(?::\d{0,5})?$/;

function defectOf(message: IncomingMessage): RequestDefect | undefined {
  const { headers, headersDistinct, httpVersionMajor, httpVersionMinor, rawHeaders } = message;
  const count = (name: string): number => headersDistinct[name]?.length ?? 0;
  if (httpVersionMajor !== 1) return 'version';
  if ((headers['transfer-encoding'] ?? 'chunked').toLowerCase() !== 'chunked') return 'transferCoding';
  // HTTP/1.0 does not need a Host.
  if (count('host') > 1 || !HOST.test(headers.host ?? (httpVersionMinor > 0 ? '' : 'none'))) return 'host';
  if (count('content-type') > 1 || count('authorization') > 1) return 'repeatedField';
  return rawHeaders.length > 2 * FIELDS_MAX ? 'tooManyFields' : undefined;
}
