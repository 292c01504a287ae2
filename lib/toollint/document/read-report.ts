// Reads a report and checks the text, then the schema, then the consistency.
import { isUtf8 } from 'node:buffer';
import { type TSchema } from '@sinclair/typebox';
import { Errors, type ValueError, ValueErrorType } from '@sinclair/typebox/errors';
import { checkConsistency } from './consistency.ts';
import type { DocumentSource } from './document-source.ts';
import { ReportFailure } from './failure.ts';
import { isReport, type Report, reportSchema } from './report-schema.ts';
import { isObject, readJson } from './strict-json.ts';

export interface Problem {
  /** `schema` means that the document is malformed; `consistency` means that its members contradict each other. */
  readonly level: 'schema' | 'consistency';
  readonly code: string;
  /** A JSON Pointer (RFC 6901); '' is the whole document. */
  readonly pointer: string;
  readonly message: string;
}

/**
 * The maximum number of problems listed for each code, so that one kind does not hide another. All problems are
 * counted.
 */
const PROBLEMS_MAX = 100;

export interface Inspection {
  readonly schema: 'valid' | 'invalid';
  readonly consistency: 'valid' | 'invalid' | 'not-checked';
  readonly problems: Problem[];
  readonly problemCount: number;
  readonly report: Report | undefined;
  readonly sawByteOrderMark: boolean;
}

const MARK = Buffer.from([0xef, 0xbb, 0xbf]);

export function inspectReport({ bytes }: DocumentSource): Inspection {
  const problems = new ProblemList();
  const sawByteOrderMark = MARK.equals(bytes.subarray(0, MARK.length));
  const value = readDocument(sawByteOrderMark ? bytes.subarray(MARK.length) : bytes, problems);
  const report = value === undefined ? undefined : reportIn(value, problems);
  if (report !== undefined)
    checkConsistency(report, (code, pointer, message) =>
      problems.add({ level: 'consistency', code, pointer, message }),
    );
  return {
    schema: report === undefined ? 'invalid' : 'valid',
    consistency: report === undefined ? 'not-checked' : problems.count === 0 ? 'valid' : 'invalid',
    problems: problems.list,
    problemCount: problems.count,
    report,
    sawByteOrderMark,
  };
}

/** Throws ReportFailure ('input') if the document is not valid. */
export function openReport(source: DocumentSource): Report {
  const { report, problems } = inspectReport(source);
  // Converters and comparisons renumber occurrences, so a wrong number does no harm.
  const fault = problems.find(({ code }) => code !== 'wrong-occurrence');
  if (fault === undefined && report !== undefined) return report;
  const what = report === undefined ? 'is not a valid report' : 'is not consistent';
  const where = fault === undefined || fault.pointer === '' ? '' : `${fault.pointer}: `;
  throw new ReportFailure('input', `${source.name} ${what}: ${where}${fault?.message ?? 'unreadable'}`);
}

class ProblemList {
  readonly list: Problem[] = [];
  count = 0;
  readonly #counts = new Map<string, number>();

  add(problem: Problem): void {
    this.count += 1;
    const count = (this.#counts.get(problem.code) ?? 0) + 1;
    this.#counts.set(problem.code, count);
    if (count <= PROBLEMS_MAX) this.list.push(problem);
  }
}

function readDocument(bytes: Uint8Array, problems: ProblemList): object | undefined {
  const fault = (code: string, message: string) => problems.add({ level: 'schema', code, pointer: '', message });
  if (!isUtf8(bytes)) {
    fault('encoding', 'the text is not UTF-8');
    return undefined;
  }
  const { value, problems: found } = readJson(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString());
  for (const { code, pointer, message } of found) problems.add({ level: 'schema', code, pointer, message });
  if (found.some(({ code }) => code === 'syntax' || code === 'too-deep')) return undefined;
  if (isObject(value)) return value;
  fault('root', 'a report is one JSON object');
  return undefined;
}

function reportIn(value: object, problems: ProblemList): Report | undefined {
  if (isReport(value)) return problems.count === 0 ? value : undefined;
  for (const { pointer, message } of schemaProblems(reportSchema, value, ''))
    problems.add({ level: 'schema', code: 'schema', pointer, message });
  return undefined;
}

/** Of several errors at one place, the first is listed. For a missing member, the pointer is the one it would have. */
function schemaProblems(schema: TSchema, value: unknown, base: string): Pick<Problem, 'pointer' | 'message'>[] {
  const problems = [...Errors(schema, [], value)].flatMap((error) => {
    // The error for a union is vague, so an object is checked against the object variant of the union.
    const variants = error.type === ValueErrorType.Union ? (error.schema['anyOf'] as TSchema[]) : [];
    const objects = variants.find((variant) => variant['type'] === 'object');
    if (objects !== undefined && isObject(error.value)) return schemaProblems(objects, error.value, base + error.path);
    return [{ pointer: base + error.path, message: describe(error, variants) }];
  });
  return [...new Map(problems.reverse().map((one) => [one.pointer, one])).values()].reverse();
}

function describe({ type, value, message }: ValueError, variants: readonly TSchema[]): string {
  if (type === ValueErrorType.ObjectRequiredProperty) return 'the member is missing';
  const names = variants.map((one) => JSON.stringify(one['const'] ?? one['type'])).join(', ');
  const expected = names === '' ? message.replace(/^Expected /u, '') : `one of ${names}`;
  // JSON.stringify would write a number that is too large as null.
  const text = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? 'nothing');
  const found = Array.isArray(value) ? 'an array' : isObject(value) ? 'an object' : text;
  return `expected ${expected}, found ${found.length > 60 ? `${found.slice(0, 57)}...` : found}`;
}
