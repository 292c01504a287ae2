// What a good report also has: told only on request (`validate --strict`), because a document without it is valid.
import { compareFindings } from './finding-order.ts';
import { PARSE_ERROR_RULE } from './finding-consistency.ts';
import { byCodeUnits } from './report-path.ts';
import { HEADER_NAMES } from './report-format.ts';
import { findingSchema, type Finding, headerProperties, type ReportHeader } from './report-schema.ts';
import type { TSchema } from '@sinclair/typebox';

/** Called with the advice's name, a JSON Pointer and a sentence. */
type AdviceSink = (code: string, pointer: string, message: string) => void;

// RFC 3339, section 5.6.
const TIMESTAMP =
  /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])[Tt](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/u;

/** Gathers advice over a whole document. */
export class Advice {
  readonly #sink: AdviceSink;
  #previous: Finding | undefined;
  readonly #parseErrorPaths = new Set<string>();

  constructor(sink: AdviceSink) {
    this.#sink = sink;
  }

  addFinding(finding: Finding, index: number): void {
    const at = `/findings/${index}`;
    if (this.#previous !== undefined && compareFindings(this.#previous, finding) > 0) {
      this.#sink('order', at, 'the findings are not in canonical order');
    }
    this.#previous = finding;
    if (!/^[0-9a-f]{64}$/u.test(finding.fingerprint)) {
      this.#sink('fingerprint-form', `${at}/fingerprint`, 'expected 64 lower-case hex digits');
    }
    if (finding.docsUrl !== undefined && !/^https?:\/\//iu.test(finding.docsUrl)) {
      this.#sink('docs-url', `${at}/docsUrl`, 'expected an http or https address');
    }
    if (finding.ruleId === PARSE_ERROR_RULE && finding.location.path !== undefined) {
      this.#parseErrorPaths.add(finding.location.path);
    }
    this.#members(findingSchema, finding, at);
  }

  addHeader(header: ReportHeader): void {
    const { scan, gate, execution } = header;
    if (!TIMESTAMP.test(scan.timestamp)) this.#sink('timestamp', '/scan/timestamp', 'expected an RFC 3339 time');
    for (const name of ['enabledRuleIds', 'include', 'exclude'] as const) {
      const sorted = scan[name].every(
        (value, index) => index === 0 || byCodeUnits(scan[name][index - 1] ?? '', value) < 0,
      );
      if (!sorted) this.#sink('sorted-list', `/scan/${name}`, 'expected a sorted list without repetition');
    }
    if (gate.status !== 'not-evaluated' && gate.name === undefined) {
      this.#sink('gate-name', '/gate/name', 'an evaluated gate has a name');
    }
    for (const [index, { kind, relativePath }] of execution.diagnostics.entries()) {
      if (kind !== 'parse-error' || (relativePath !== undefined && this.#parseErrorPaths.has(relativePath))) continue;
      this.#sink(
        'parse-error-finding',
        `/execution/diagnostics/${index}`,
        `expected a ${PARSE_ERROR_RULE} finding in the same file`,
      );
    }
    for (const name of HEADER_NAMES) this.#members(headerProperties[name], header[name], `/${name}`);
  }

  addUnknownMember(name: string): void {
    this.#sink(
      'unknown-member',
      `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`,
      'the specification does not name this member',
    );
  }

  /** Unknown members and ill-formed Unicode, all the way down. */
  #members(schema: TSchema | undefined, value: unknown, pointer: string): void {
    if (typeof value === 'string') {
      if (!value.isWellFormed()) this.#sink('unicode', pointer, 'the text has half of a surrogate pair');
      return;
    }
    if (typeof value !== 'object' || value === null) return;
    if (Array.isArray(value)) {
      for (const [index, element] of value.entries())
        this.#members(schema?.['items'] as TSchema | undefined, element, `${pointer}/${index}`);
      return;
    }
    const variants = (schema?.['anyOf'] as TSchema[] | undefined) ?? [schema];
    const named = variants.find((variant) => variant?.['properties'] !== undefined)?.['properties'] as
      Record<string, TSchema> | undefined;
    for (const [name, member] of Object.entries(value)) {
      const at = `${pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
      const known = named !== undefined && Object.hasOwn(named, name) ? named[name] : undefined;
      if (known === undefined && schema !== undefined)
        this.#sink('unknown-member', at, 'the specification does not name this member');
      this.#members(known, member, at);
    }
  }
}
