// The verbs as a library: scan, validate, compare, gate, convert, and the schema. None of them reads the environment,
// writes to a terminal or ends the process; a ReportFailure says why a verb could not do its work.
import type { ByteSource } from './byte-source.ts';
import { type Inspection, inspectReport, type InspectOptions } from './inspect-report.ts';

export { fileSource, memorySource, streamSource, type ByteSource } from './byte-source.ts';
export { compare, type CompareOptions, type CompareOutcome } from './compare.ts';
export { convert, type ConvertOptions, type Format, FORMATS } from './convert.ts';
export { type FailureCode, Interrupted, ReportFailure } from './failure.ts';
export { gate } from './gate-report.ts';
export { BUILT_IN_GATES, chosenGate, type GateCondition, type GateConfig } from './gate-config.ts';
export { writeWhole } from './output-file.ts';
export { isReport, reportJsonSchema as schema, type Finding, type Report, type ReportHeader } from './report-schema.ts';
export { openReport, type ReportSource } from './report-source.ts';
export { type TextSink, writeReport } from './report-writer.ts';
export { scan, type ScanOptions, type ScanOutcome } from './scan.ts';

/** Judges a document: schema, then consistency and advice as asked. Throws ReportFailure only when it cannot be read. */
export async function validate(source: ByteSource, options?: InspectOptions): Promise<Inspection> {
  return inspectReport(source, options);
}
