// A report that verbs work on: its header at hand, its findings as often as wanted, a batch at a time, so that memory
// does not follow the number of findings.
import type { ByteSource } from './byte-source.ts';
import { DocumentParser } from './document-parser.ts';
import type { TextProblem } from './document-visitor.ts';
import { ReportFailure } from './failure.ts';
import type { Finding, ReportHeader } from './report-schema.ts';

/** Header and findings of a valid report. */
export interface ReportSource {
  readonly header: ReportHeader;
  /** Findings in document order, in batches of any size. */
  readonly findings: () => AsyncIterable<readonly Finding[]>;
  /** The findings as lines of a document, where they are at hand as such. */
  readonly findingLines?: () => AsyncIterable<readonly string[]>;
}

/** What an input must be besides well-formed. */
interface OpenOptions {
  /** Default true: invariants too, except the numbering of occurrences, which nothing reads. */
  readonly consistency?: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** Reads and judges a report that a verb needs. Throws ReportFailure ('input') when it is not valid. */
export async function openReport(source: ByteSource, options: OpenOptions = {}): Promise<ReportSource> {
  // Loaded when a report is read: a scan without a baseline does without the schema.
  const { inspectReport } = await import('./inspect-report.ts');
  const { header, problems, schema } = await inspectReport(source, { ...options, problemsMax: 1000 });
  const fault = problems.find(
    ({ level, code }) => level === 'schema' || (level === 'consistency' && code !== 'invariant-12'),
  );
  if (fault !== undefined || header === undefined) {
    const what = schema === 'valid' ? 'is not consistent' : 'is not a valid report';
    const where = fault === undefined || fault.pointer === '' ? '' : `${fault.pointer}: `;
    throw new ReportFailure('input', `${source.name} ${what}: ${where}${fault?.message ?? 'unreadable'}`);
  }
  return { header, findings: () => findingBatches(source) };
}

/** The findings of a document that is known to be valid. */
async function* findingBatches(source: ByteSource): AsyncGenerator<readonly Finding[]> {
  let batch: Finding[] = [];
  const nothing = () => undefined;
  const parser = new DocumentParser({
    member: nothing,
    findingsBegin: nothing,
    finding: (value) => batch.push(value as Finding),
    problem: ({ message }: TextProblem) => {
      throw new ReportFailure('io', `${source.name} changed while it was read: ${message}`);
    },
  });
  for await (const chunk of source.open()) {
    parser.push(chunk);
    if (batch.length === 0) continue;
    yield batch;
    batch = [];
  }
  parser.end();
  if (batch.length > 0) yield batch;
}
