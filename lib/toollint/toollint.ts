// The verbs as a library: scan, validate, compare, gate, convert, and the schema. None of them reads the environment,
// writes to a terminal or ends the process; a ReportFailure says why a verb could not do its work.
import type { ByteSource } from './document/byte-source.ts';
import { type Inspection, inspectReport, type InspectOptions } from './document/inspect-report.ts';

export { fileSource, memorySource, streamSource, type ByteSource } from './document/byte-source.ts';
export { compare, type CompareOptions, type CompareOutcome } from './compare/compare.ts';
export { convert, type Format, FORMATS } from './convert/convert.ts';
export type { ConvertOptions } from './convert/convert-options.ts';
export { type FailureCode, Interrupted, ReportFailure } from './document/failure.ts';
export { gate } from './gate/gate-report.ts';
export { BUILT_IN_GATES, chosenGate, type GateCondition, type GateConfig } from './gate/gate-config.ts';
export { writeWhole } from './document/output-file.ts';
export {
  isReport,
  reportJsonSchema as schema,
  type Finding,
  type Report,
  type ReportHeader,
} from './document/report-schema.ts';
export { openReport, type ReportSource } from './document/report-source.ts';
export { type TextSink, writeReport } from './document/report-writer.ts';
export { scan } from './scan/scan.ts';
export type { ScanOptions, ScanOutcome } from './scan/scan-options.ts';

/**
 * Judges a document: schema, then consistency and advice as asked. Throws ReportFailure only when it cannot be read.
 */
export async function validate(source: ByteSource, options?: InspectOptions): Promise<Inspection> {
  return inspectReport(source, options);
}
