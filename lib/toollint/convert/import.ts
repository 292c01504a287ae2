// Converts another linter's SARIF to a report.
//
// Reads the source files below the root to compute fingerprints. Without its source, a finding is identified by its
// message.
import { isAbsolute, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { summaryOf, UNKNOWN_SCOPE } from '../document/consistency.ts';
import { type DocumentSource, realFolder, textIn } from '../document/document-source.ts';
import { ReportFailure } from '../document/failure.ts';
import { descriptions, fileFindings, type LintMessage, type RuleFacts } from '../document/file-findings.ts';
import { compareFindings, numberOccurrences } from '../document/finding-order.ts';
import { SCHEMA_VERSION } from '../document/report-format.ts';
import { pathFault } from '../document/report-path.ts';
import type { Finding, Report } from '../document/report-schema.ts';
import { sourceBelow } from '../document/source-file.ts';
import { type ForeignMessage, type ForeignReport, importSarif, type Refuse } from './import-sarif.ts';

export interface ImportOptions {
  readonly root: string;
  readonly cwd: string;
  readonly timestamp?: string | undefined;
}

/** Throws ReportFailure ('input') for an invalid document. */
export function importReport(source: DocumentSource, options: ImportOptions): Report {
  const refuse = (fault: string): never => {
    throw new ReportFailure('input', `${source.name} cannot be imported from sarif: ${fault}`);
  };
  const foreign = importSarif(textIn(source), refuse);
  const root = realFolder(resolve(options.cwd, options.root));
  const pathOf = (text: string) => reportPath(text, root, refuse);
  const byPath = Map.groupBy(foreign.messages, ({ path }) => (path === undefined ? undefined : pathOf(path)));
  const paths = new Set([...byPath.keys(), ...foreign.paths.map(pathOf)].filter((path) => path !== undefined));
  const diagnostics = foreign.diagnostics.map((diagnostic) =>
    diagnostic.relativePath === undefined
      ? diagnostic
      : { ...diagnostic, relativePath: pathOf(diagnostic.relativePath) },
  );
  const factsOf = (ruleId: string) => foreign.rules.get(ruleId) ?? {};
  const findings: Finding[] = [];
  for (const [path, messages] of byPath) {
    const text = path === undefined ? '' : sourceBelow(root, path);
    const placed = messages.map((message) => withPosition(message, text));
    for (const finding of fileFindings({ path, text, messages: placed, roots: [root], factsOf }))
      findings.push(finding);
  }
  numberOccurrences(findings.sort(compareFindings));
  return {
    schemaVersion: SCHEMA_VERSION,
    tool: toolOf(foreign, findings, factsOf),
    execution: { status: diagnostics.length > 0 ? 'incomplete' : 'complete', diagnostics },
    scan: {
      ...UNKNOWN_SCOPE,
      timestamp: options.timestamp ?? new Date().toISOString(),
      durationMs: 0,
      profile: null,
    },
    selection: { quiet: false },
    gate: { status: 'not-evaluated' },
    // A log without findings may name no file, but the linter did run.
    summary: summaryOf(Math.max(1, paths.size), findings, diagnostics),
    findings,
  };
}

function toolOf(
  { tool }: ForeignReport,
  findings: readonly Finding[],
  factsOf: (ruleId: string) => RuleFacts,
): Report['tool'] {
  const { informationUri } = tool;
  const [name, version] = [tool.name || 'unknown', tool.version || 'unknown'];
  const linter = { name, version, ...(informationUri === undefined ? {} : { informationUri }) };
  return Object.assign({ name, version }, { linter, rules: descriptions(findings, factsOf) });
}

function reportPath(text: string, root: string, refuse: Refuse): string {
  let path = text;
  if (/^file:/iu.test(text)) {
    try {
      path = fileURLToPath(text);
    } catch {
      return refuse(`not a file: ${text}`);
    }
  }
  const inside = isAbsolute(path) ? relative(root, path) : path.replace(/^(?:\.[/\\])+/u, '');
  const result = inside.split(sep).join('/').replaceAll('\\', '/').normalize('NFC');
  const fault = pathFault(result);
  return fault === undefined ? result : refuse(`${text}: ${fault}; is it below the root ${root} (--root)?`);
}

/** Converts columns that count code points to columns that count UTF-16 units. */
function withPosition(message: ForeignMessage, text: string): LintMessage {
  const { line, column, endLine, endColumn, countsCodePoints } = message;
  if (line === undefined || countsCodePoints !== true || text === '') return message;
  const lines = text.split('\n');
  const units = (at: number | undefined, of: number | undefined) =>
    at === undefined || of === undefined ? of : [...(lines[at - 1] ?? '')].slice(0, of - 1).join('').length + 1;
  return { ...message, column: units(line, column), endColumn: units(endLine ?? line, endColumn) };
}
