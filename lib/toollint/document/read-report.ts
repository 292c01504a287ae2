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

/** Adds `base` in front of each pointer. For a missing member, the pointer is the one it would have. */
function schemaProblems(schema: TSchema, value: unknown, base: string): Pick<Problem, 'pointer' | 'message'>[] {
  const problems = new Map<string, Pick<Problem, 'pointer' | 'message'>>();
  for (const error of Errors(schema, [], value)) {
    for (const { path, message } of inner(error)) {
      const pointer = base + path;
      if (!problems.has(pointer)) problems.set(pointer, { pointer, message });
    }
  }
  return [...problems.values()];
}

/** The error for a union is vague, so an object is checked against the object variant of the union. */
function inner(error: ValueError): { path: string; message: string }[] {
  const variants = error.type === ValueErrorType.Union ? (error.schema['anyOf'] as TSchema[]) : [];
  const objects = variants.find((variant) => variant['type'] === 'object');
  if (objects === undefined || !isObject(error.value)) return [{ path: error.path, message: describe(error) }];
  return schemaProblems(objects, error.value, error.path).map(({ pointer, message }) => ({ path: pointer, message }));
}

function describe({ type, schema, value, message }: ValueError): string {
  if (type === ValueErrorType.ObjectRequiredProperty) return 'the member is missing';
  const names = () => (schema['anyOf'] as TSchema[]).map((one) => JSON.stringify(one['const'] ?? one['type']));
  const expected = type === ValueErrorType.Union ? `one of ${names().join(', ')}` : message.replace(/^Expected /u, '');
  return `expected ${expected}, found ${found(value)}`;
}

function found(value: unknown): string {
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object') return value === null ? 'null' : 'an object';
  // JSON.stringify would write a number that is too large as null.
  const text = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? 'nothing');
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}
