// The library: the verbs, the schema, and the fingerprint recipe for other tools. The library does not read the
// environment, write to a terminal or end the process. Expected failures are thrown as ReportFailure.
export { compare, type CompareOptions, type CompareOutcome } from './command/compare.ts';
export type { Judgment } from './command/judge.ts';
export { scan, type ScanOptions } from './command/scan.ts';
export type { Comparison } from './compare/comparison.ts';
export { changesSince, type SourceChanges } from './compare/source-changes.ts';
export { convert, type Format, FORMATS } from './convert/convert.ts';
export type { ConvertOptions } from './convert/converter.ts';
export { importReports, type ImportOptions } from './convert/import.ts';
export type { DocumentSource } from './document/document-source.ts';
export { DOCUMENT_BYTES_MAX, fileSource, memorySource, streamSource } from './document/document-source.ts';
export { type FailureCode, Interrupted, ReportFailure } from './document/failure.ts';
export { contentHalf, discriminatorOf, flaggedTexts, placeHalf, sourceLines } from './document/fingerprint.ts';
export { mergeReports } from './document/merge-reports.ts';
export { type Inspection, inspectReport as validate, openReport, type Problem } from './document/read-report.ts';
export type { Finding, Report, ReportHeader } from './document/report-schema.ts';
export { isReport, reportJsonSchema as schema } from './document/report-schema.ts';
export { reportText, type TextSink, writeWhole } from './document/output-file.ts';
export { chosenGate, type GateConfig } from './gate/gate.ts';
