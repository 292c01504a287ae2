// Reads a report and checks the text, then the schema, then the consistency.
import { isUtf8 } from 'node:buffer';
import { type TSchema } from '@sinclair/typebox';
import { Errors, type ValueError, ValueErrorType } from '@sinclair/typebox/errors';
import { contradictionsIn } from './consistency.ts';
import type { DocumentSource } from './document-source.ts';
import { ReportFailure } from './failure.ts';
import { isReport, type Report, reportSchema } from './report-schema.ts';
import { isObject, readJson } from './strict-json.ts';

export interface Problem {
  /** `schema` means that the document is malformed; `consistency` means that its members contradict each other. */
  readonly level: 'schema' | 'consistency';
  readonly code: string;
  readonly pointer: string;
  readonly message: string;
}

/** At most this many problems are listed for each code, so that one kind does not hide another. All are counted. */
const PROBLEMS_MAX = 100;

export type Inspection = ReturnType<typeof inspectReport>;

export function inspectReport({ bytes }: DocumentSource) {
  const problems: Problem[] = [];
  const counts = new Map<string, number>();
  let problemCount = 0;
  const add = (level: Problem['level'], code: string, pointer: string, message: string) => {
    const count = (counts.get(code) ?? 0) + 1;
    counts.set(code, count);
    problemCount += 1;
    if (count <= PROBLEMS_MAX) problems.push({ level, code, pointer, message });
  };
  const content = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const sawByteOrderMark = content.subarray(0, 3).equals(Buffer.from([0xef, 0xbb, 0xbf]));
  const { value, problems: faults } = isUtf8(content)
    ? readJson(content.toString('utf8', sawByteOrderMark ? 3 : 0))
    : { value: undefined, problems: [{ code: 'encoding', pointer: '', message: 'the text is not UTF-8' }] };
  for (const { code, pointer, message } of faults) add('schema', code, pointer, message);
  const isRead = faults.every(({ code }) => !['encoding', 'syntax', 'too-deep'].includes(code));
  if (isRead && !isObject(value)) add('schema', 'root', '', 'a report is one JSON object');
  else if (isRead && !isReport(value))
    for (const { pointer, message } of schemaFaults(reportSchema, value)) add('schema', 'schema', pointer, message);
  const report = isReport(value) && problemCount === 0 ? value : undefined;
  if (report !== undefined) for (const fault of contradictionsIn(report)) add('consistency', ...fault);
  return {
    schema: report === undefined ? 'invalid' : 'valid',
    consistency: report === undefined ? 'not-checked' : problemCount === 0 ? 'valid' : 'invalid',
    ...{ problems, problemCount, report, sawByteOrderMark },
  } as const;
}

export function openReport(source: DocumentSource): Report {
  const { report, problems } = inspectReport(source);
  // Converters and comparisons renumber occurrences, so a wrong number does no harm.
  const fault = problems.find(({ code }) => code !== 'wrong-occurrence');
  if (fault === undefined && report !== undefined) return report;
  const what = report === undefined ? 'is not a valid report' : 'is not consistent';
  const where = fault === undefined || fault.pointer === '' ? '' : `${fault.pointer}: `;
  throw new ReportFailure('input', `${source.name} ${what}: ${where}${fault?.message ?? 'unreadable'}`);
}

/** Of several errors at one place, the first is listed. For a missing member, the pointer is the one it would have. */
export function schemaFaults(schema: TSchema, value: unknown, base = ''): Pick<Problem, 'pointer' | 'message'>[] {
  const faults = [...Errors(schema, [], value)].flatMap((error) => {
    // The error for a union is vague, so an object is checked against the object variant of the union.
    const variants = error.type === ValueErrorType.Union ? (error.schema['anyOf'] as TSchema[]) : [];
    const objects = variants.find((variant) => variant['type'] === 'object');
    if (objects !== undefined && isObject(error.value)) return schemaFaults(objects, error.value, base + error.path);
    return [{ pointer: base + error.path, message: describe(error, variants) }];
  });
  return [...new Map(faults.reverse().map((one) => [one.pointer, one])).values()].reverse();
}

function describe({ type, value, message, schema }: ValueError, variants: readonly TSchema[]): string {
  if (type === ValueErrorType.ObjectRequiredProperty) return 'the member is missing';
  if (schema.description !== undefined) return schema.description;
  const names = variants.map((one) => JSON.stringify(one['const'] ?? one['type'])).join(', ');
  const expected = names === '' ? message.replace(/^Expected /u, '') : `one of ${names}`;
  // JSON.stringify would write a number that is too large as null.
  const text = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? 'nothing');
  const kind = Array.isArray(value) ? 'an array' : isObject(value) ? 'an object' : text;
  return `expected ${expected}, found ${kind.length > 60 ? `${kind.slice(0, 57)}...` : kind}`;
}
