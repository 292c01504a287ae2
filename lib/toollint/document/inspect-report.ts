// Reads a report once, in bounded memory, and judges it: the text, the schema, then consistency and advice as asked.
// What the document says, apart from its findings, comes back with the verdict.
//
// A check of a finding against the header needs the header first. The specification does not order the members, so
// when the header came later, those checks are made in a second reading.
import { Advice } from './advice.ts';
import type { ByteSource } from './byte-source.ts';
import { DocumentParser } from './document-parser.ts';
import { throwIfInterrupted } from './failure.ts';
import { findingContextCheck, FindingConsistency, type InvariantSink } from './finding-consistency.ts';
import { checkHeader } from './header-consistency.ts';
import { type Problem, ProblemList } from './problem.ts';
import { HEADER_NAMES } from './report-format.ts';
import {
  type Finding,
  findingCheck,
  findingSchema,
  headerChecks,
  headerProperties,
  type HeaderName,
  type ReportHeader,
} from './report-schema.ts';
import { schemaProblems } from './schema-problems.ts';
import { TOOL_NAME } from './tool-identity.ts';

/** Invariants that tell how our own scans work; for another tool's report they are advice. */
const OWN_INVARIANTS: ReadonlySet<number> = new Set([13, 17, 19, 21]);

export interface InspectOptions {
  /** Default true. */
  readonly consistency?: boolean;
  /** Also gather advice. Default false. */
  readonly advice?: boolean;
  /** Most problems to list per level; all are counted. Default 100. */
  readonly problemsMax?: number;
  readonly signal?: AbortSignal | undefined;
}

/** The verdicts on one document. */
export interface Inspection {
  readonly schema: 'valid' | 'invalid';
  readonly consistency: 'valid' | 'invalid' | 'not-checked';
  /** Everything found, in the order of the reading, at most `problemsMax` per level. */
  readonly problems: Problem[];
  readonly counts: Readonly<Record<Problem['level'], number>>;
  /** All members but `findings`; undefined when the schema does not hold. */
  readonly header: ReportHeader | undefined;
  readonly sawByteOrderMark: boolean;
}

/** Judges one report. Throws ReportFailure only when the bytes cannot be had. */
export async function inspectReport(source: ByteSource, options: InspectOptions = {}): Promise<Inspection> {
  const reading = new Reading(options);
  const parser = new DocumentParser(reading);
  for await (const chunk of source.open()) {
    throwIfInterrupted(options.signal);
    parser.push(chunk);
    if (parser.stopped) break;
  }
  parser.end();
  reading.finish(!parser.stopped);
  if (reading.contextMissed && reading.header !== undefined) {
    const second = new DocumentParser(reading.contextReading());
    for await (const chunk of source.open()) {
      throwIfInterrupted(options.signal);
      second.push(chunk);
    }
    second.end();
  }
  return reading.verdict(parser.sawByteOrderMark);
}

class Reading {
  header: ReportHeader | undefined;
  contextMissed = false;

  readonly #wantConsistency: boolean;
  readonly #problems: ProblemList;
  readonly #deferred: { number: number; pointer: string; message: string }[] = [];
  readonly #problemsMax: number;
  readonly #members = new Map<string, unknown>();
  readonly #malformed = new Set<string>();
  readonly #unknownMembers: string[] = [];
  readonly #advice: Advice | undefined;
  readonly #consistency: FindingConsistency;
  readonly #sink: InvariantSink;
  #checkContext: ((finding: Finding, index: number) => void) | undefined;
  #sawFindings = false;

  constructor({ consistency = true, advice = false, problemsMax = 100 }: InspectOptions) {
    this.#wantConsistency = consistency;
    this.#problemsMax = problemsMax;
    this.#problems = new ProblemList(problemsMax);
    this.#sink = (number, pointer, message) => {
      if (OWN_INVARIANTS.has(number) && this.#toolName() === undefined) this.#defer(number, pointer, message);
      else this.#invariant(number, pointer, message);
    };
    this.#consistency = new FindingConsistency(this.#sink);
    this.#advice = advice
      ? new Advice((code, pointer, message) => this.#problems.add({ level: 'advice', code, pointer, message }))
      : undefined;
  }

  problem(problem: { code: string; pointer: string; message: string }): void {
    this.#problems.add({ level: 'schema', ...problem });
  }

  member(name: string, value: unknown): void {
    this.#members.set(name, value);
    if (name === 'findings') {
      this.problem({ code: 'schema', pointer: '/findings', message: 'expected array' });
      this.#sawFindings = true;
      return;
    }
    const check = headerChecks.get(name);
    if (check === undefined) this.#unknownMembers.push(name);
    else if (!check.Check(value)) {
      for (const found of schemaProblems(headerProperties[name as HeaderName], value, `/${name}`)) {
        this.problem({ code: 'schema', ...found });
      }
      this.#members.delete(name);
      this.#malformed.add(name);
    }
  }

  findingsBegin(): void {
    this.#sawFindings = true;
    const context = this.#headerMembers(['scan', 'selection']);
    if (context === undefined) this.contextMissed = true;
    else this.#checkContext = findingContextCheck(context as Pick<ReportHeader, 'scan' | 'selection'>, this.#sink);
  }

  finding(value: unknown, index: number): void {
    if (!findingCheck.Check(value)) {
      for (const found of schemaProblems(findingSchema, value, `/findings/${index}`))
        this.problem({ code: 'schema', ...found });
      return;
    }
    if (this.#wantConsistency) {
      this.#consistency.add(value, index);
      this.#checkContext?.(value, index);
    }
    this.#advice?.addFinding(value, index);
  }

  /** The text has ended; `whole` when it was read to the end. */
  finish(whole: boolean): void {
    if (whole) {
      for (const name of HEADER_NAMES) {
        if (!this.#members.has(name) && !this.#malformed.has(name)) this.#missing(name);
      }
      if (!this.#sawFindings) this.#missing('findings');
    }
    if (this.#problems.counts.schema > 0) return;
    this.header = this.#headerMembers(HEADER_NAMES) as ReportHeader;
    this.#advice?.addHeader(this.header);
    for (const name of this.#unknownMembers) this.#advice?.addUnknownMember(name);
    if (!this.#wantConsistency) return;
    for (const { number, pointer, message } of this.#deferred) this.#invariant(number, pointer, message);
    checkHeader(this.header, this.#consistency, this.#sink);
  }

  /** A visitor for the second reading: only the checks that need the header. */
  contextReading() {
    const check =
      this.header === undefined || !this.#wantConsistency ? undefined : findingContextCheck(this.header, this.#sink);
    const nothing = () => undefined;
    return {
      member: nothing,
      findingsBegin: nothing,
      problem: nothing,
      finding: (value: unknown, index: number) => check?.(value as Finding, index),
    };
  }

  verdict(sawByteOrderMark: boolean): Inspection {
    const { counts } = this.#problems;
    const schema = counts.schema === 0 ? 'valid' : 'invalid';
    const checked = this.#wantConsistency && schema === 'valid';
    const levels: Problem['level'][] = checked ? ['schema', 'consistency', 'advice'] : ['schema', 'advice'];
    return {
      schema,
      consistency: !checked ? 'not-checked' : counts.consistency === 0 ? 'valid' : 'invalid',
      problems: this.#problems.list(levels),
      counts: { ...counts, consistency: checked ? counts.consistency : 0 },
      header: this.header,
      sawByteOrderMark,
    };
  }

  #missing(name: string): void {
    this.problem({ code: 'schema', pointer: `/${name}`, message: 'the member is missing' });
  }

  #headerMembers(names: readonly HeaderName[]): Partial<ReportHeader> | undefined {
    if (!names.every((name) => this.#members.has(name))) return undefined;
    return Object.fromEntries(names.map((name) => [name, this.#members.get(name)]));
  }

  #toolName(): string | undefined {
    return (this.#members.get('tool') as ReportHeader['tool'] | undefined)?.name;
  }

  #defer(number: number, pointer: string, message: string): void {
    if (this.#deferred.length < this.#problemsMax) this.#deferred.push({ number, pointer, message });
  }

  #invariant(number: number, pointer: string, message: string): void {
    const foreign = OWN_INVARIANTS.has(number) && this.#toolName() !== TOOL_NAME;
    this.#problems.add({ level: foreign ? 'advice' : 'consistency', code: `invariant-${number}`, pointer, message });
  }
}
