// The --help texts. A test checks that they name every verb and flag.

const GATE_HELP = `gate:
  --gate NAME             default (errors fail, warnings warn), strict (every finding fails), new-code (new ones fail)
  --max-errors N  --max-warnings N  --max-infos N  --max-new N    limits of the gate "cli", or of the named gate
  --quiet                 list errors only; counts, gate and exit code stay
  --silent                no summary on standard error
  --fail-on-warning       the gate's warning is exit code 1
  --exit-zero             exit code 1 becomes 0
  --allow-no-files        exit code 4 becomes 0
`;

const OUTPUT_HELP = `output:
  --format FORMAT[=FILE]  report pretty html sarif gitlab junit markdown github; repeatable with files
                          (--to is the same). Default: pretty on a terminal, else report
  -o, --output FILE       write to this file, completely or not at all
  --color WHEN            auto, always, never
  --source-url URL        html and markdown link a finding to URL/PATH#Lnn, as in https://host/org/repo/blob/SHA/
  --max-results N         most results of a SARIF log, errors first (all; GitHub accepts 25000)
`;

const RENAMES_HELP = `\
  --renames git:REF       findings in renamed files and on changed lines stay known, by git's changes since REF
                          (default: since the commit of the baseline file)
`;

const BASELINE_HELP = `\
  --baseline FILE         list only the findings that are new against a baseline file or an earlier report
  --update-baseline       write the baseline file: all findings if there is none yet, later without those that are gone
  --accept RULE --reason TEXT [--until YYYY-MM-DD]
                          with --update-baseline: new findings of the rule become known; --accept is repeatable
${RENAMES_HELP}`;

const TEXTS = {
  '': `usage: toollint VERB [arguments]

  scan [paths...]        run ESLint and write a report
  import FILE...         convert another linter's output to a report
  merge REPORT...        join the reports of shards or packages
  validate FILE...       check reports: schema and consistency
  compare BASE CURRENT   list new findings and count the others
  explain FINDING        print why a finding is new, known, fixed or not verifiable
  convert REPORT         turn a report into another format
  schema                 print the report's JSON Schema (draft 2020-12)

toollint VERB --help lists its flags; toollint --version prints the version. '-' is standard input.

exit codes: 0 good; 1 gate failed, an error finding without a gate, or an invalid document;
2 usage, configuration, input or output; 3 analysis incomplete; 4 no files; 130 interrupted
`,
  scan: `usage: toollint scan [paths...]

  --root DIR              report paths are relative to it, and its ESLint runs; default: the current folder
  -c, --config FILE       configuration in place of the target's own eslint.config.*
  --include GLOB  --exclude GLOB    repeatable, relative to the root
  --ext LIST              only files with these endings, as in --ext js,ts
${BASELINE_HELP}\
  --path-prefix PATH      put before every path of the report, for a part of a larger repository
  --timestamp ISO         default: now
  --deterministic         same bytes for the same code: no duration, no clock

${OUTPUT_HELP}
${GATE_HELP}`,
  import: `usage: toollint import --from sarif FILE...

Converts SARIF of other linters to one report. With a baseline or a gate it has the exit codes of a scan. SARIF does
not list the checked files and rules, so a missing finding is not verifiable, and --update-baseline drops its line.

  --root DIR              the folder that the linter ran in; default: the current folder
  --path-prefix PATH      put before every path of the report, for a part of a larger repository
  --tool NAME             take the runs of this tool only; default: one report of all tools
  --timestamp ISO         when it ran; default: now
${BASELINE_HELP}
${OUTPUT_HELP}
${GATE_HELP}`,
  merge: `usage: toollint merge REPORT...

Joins reports. The result is incomplete if one report is, and lists a common finding once. Reports of different linters
become one of toollint, unless they share a rule id.

${OUTPUT_HELP}`,
  validate: `usage: toollint validate FILE|- ...

  --format text|json      default: text

exit codes: 0 valid, 1 invalid, 2 a file cannot be read
`,
  compare: `usage: toollint compare BASE CURRENT

Writes CURRENT with only the findings that are new against BASE, a baseline file or an earlier report, and counts the
others in selection.baseline.
SARIF and HTML list all but the not verifiable ones, each with its state.

${RENAMES_HELP}
${OUTPUT_HELP}
${GATE_HELP}`,
  explain: `usage: toollint explain FINGERPRINT|LINE

Prints why a finding is new, known, fixed or not verifiable. FINGERPRINT may be cut to 8 digits; LINE is PATH:LINE of
the code, or the number of a line of the baseline file.

  --baseline FILE         default: toollint-baseline.jsonl
  --report REPORT         findings of this report, in place of a scan
  --root DIR  -c, --config FILE  --path-prefix PATH    as for scan
${RENAMES_HELP}`,
  convert: `usage: toollint convert REPORT --to FORMAT

${OUTPUT_HELP}`,
  schema: `usage: toollint schema

Prints the JSON Schema (draft 2020-12) of the report.
`,
};

/** Maps each verb to its help text; '' is the program itself. */
export const USAGE: ReadonlyMap<string, string> = new Map(Object.entries(TEXTS));
