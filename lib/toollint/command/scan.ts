import { isNeverBaselined } from '../compare/baseline.ts';
import type { BaselineEntry } from '../compare/baseline-file.ts';
import type { DoubtsOf } from '../compare/comparison.ts';
import { matchFindings } from '../compare/finding-match.ts';
import { ENGINE_RULE } from '../document/consistency.ts';
import { TOOL_NAME, TOOL_VERSION } from '../document/report-format.ts';
import { checkGateNeeds } from '../gate/gate.ts';
import { analyse } from '../scan/analyse.ts';
import type { Analysis, AnalysisOptions } from '../scan/scan-options.ts';
import { judge, type JudgeOptions, type Judgment } from './judge.ts';

export type ScanOptions = AnalysisOptions & JudgeOptions;

/** Throws ReportFailure if the scan cannot start, Interrupted if the signal fires. */
export async function scan(options: ScanOptions): Promise<Judgment> {
  checkGateNeeds(options.gate, options.baseline !== undefined || options.update !== undefined);
  const analysis = await analyse(options);
  const { linter, rules } = analysis;
  const tool = { name: TOOL_NAME, version: TOOL_VERSION, linter, rules };
  return judge({ ...analysis, tool, doubtsOf: doubtsOf(analysis) }, options);
}

/**
 * A missing finding was fixed only if its rule ran to the end of the same file and no comment or suppression hides
 * the finding, or if the file was deleted and the rule would have run on it.
 */
function doubtsOf(analysis: Analysis): DoubtsOf {
  return async (missing) => {
    const doubts = new Map<BaselineEntry, string>();
    const byPath = Map.groupBy(missing, ({ finding }) => finding.location.path ?? '');
    for (const [path, entries] of byPath) {
      const coverage = await analysis.coverageOf(path);
      const hidden = matchFindings(entries, coverage?.suppressed ?? []).missing;
      const isHidden = new Set(entries.filter((entry) => !hidden.includes(entry)));
      const ran = ({ finding }: BaselineEntry) =>
        coverage?.ran.has(finding.ruleId) === true ||
        ((isNeverBaselined(finding) || finding.ruleId === ENGINE_RULE) && (coverage?.ran.size ?? 0) > 0);
      for (const entry of entries) {
        if (coverage === undefined) doubts.set(entry, 'the scan did not analyze the file to its end');
        else if (isHidden.has(entry)) doubts.set(entry, 'a comment or eslint-suppressions.json hides it');
        else if (!ran(entry)) doubts.set(entry, `the rule ${entry.finding.ruleId} did not run to the end of the file`);
      }
    }
    return doubts;
  };
}
