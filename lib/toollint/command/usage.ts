/** The --help text of all verbs. A test checks that it names every verb and flag. */
export const USAGE = `usage: toollint VERB [arguments]

  scan [paths...]               run ESLint and write a report
  import --from sarif FILE...   convert the SARIF of other linters to one report
  merge REPORT...               join the reports of shards, packages or linters
  compare BASE CURRENT          list new findings and count the others; BASE is a baseline file or an earlier report
  explain FINGERPRINT|PATH:LINE|LINE
                                print why a finding is new, known, fixed or not verifiable; of the fingerprint, or
                                of \`content\` in the baseline file, 8 digits are enough; LINE is one of that file
  convert REPORT --to FORMAT    turn a report into another format
  validate FILE...              check reports (schema and consistency) or baseline files; --format text|json
  schema                        print the report's JSON Schema (draft 2020-12)

'-' is standard input. toollint --version prints the version.

files (scan, import, explain):
  --root DIR              report paths are relative to it, and its ESLint runs; default: the current folder
  --path-prefix PATH      put before every path of the report, for a part of a larger repository
  -c, --config FILE       scan, explain: configuration in place of the target's own eslint.config.*
  --include GLOB  --exclude GLOB    scan: repeatable, relative to the root
  --ext LIST              scan: only files with these endings, as in --ext js,ts
  --tool NAME             import: take the runs of this tool only; default: one report of all tools
  --accept-failed-run     import: a run that calls itself unsuccessful only found something, as of SpotBugs 4.4
  --report REPORT         explain: findings of this report, in place of a scan
  --timestamp ISO         scan, import: default: now
  --deterministic         scan: same bytes for the same code: no duration, no clock

baseline (scan, import):
  --baseline FILE         list only the findings that are new against a baseline file or an earlier report
                          (explain: default toollint-baseline.jsonl)
  --update-baseline       write the baseline file: all findings the first time, later without those that are gone
  --accept RULE --reason TEXT [--until YYYY-MM-DD]
                          with --update-baseline: new findings of the rule become known; --accept is repeatable
  --renames git:REF       also compare, explain: findings in renamed files and on changed lines stay known, by git's
                          changes since REF (default: since the commit of the baseline file)

output (scan, import, compare, merge, convert):
  --format FORMAT[=FILE]  report pretty html sarif gitlab junit markdown github; repeatable with files
                          (--to is the same). Default: pretty on a terminal, else report
  -o, --output FILE       write to this file, completely or not at all
  --color WHEN            auto, always, never
  --max-results N         most results of a SARIF log, errors first (GitHub accepts 25000)
  --source-url URL        html and markdown link a finding to URL/PATH#Lnn, as in https://host/org/repo/blob/SHA/

gate (scan, import, compare):
  --gate NAME             default (errors fail, warnings warn), strict (every finding fails), new-code (new ones fail)
  --max-errors N  --max-warnings N  --max-infos N  --max-new N    limits of the gate "cli", or of the named gate
  --quiet                 list and count errors only; baseline counts, gate and exit code stay
  --silent                no summary on standard error
  --fail-on-warning       the gate's warning is exit code 1
  --exit-zero             exit code 1 becomes 0
  --allow-no-files        exit code 4 becomes 0

exit codes: 0 good; 1 gate failed, an error finding without a gate, or an invalid document;
2 usage, configuration, input or output; 3 analysis incomplete; 4 no files; 130 interrupted
`;
