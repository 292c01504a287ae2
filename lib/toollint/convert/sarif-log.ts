// The part of a SARIF 2.1.0 log (OASIS) that an import reads, as a schema. A log of another form is refused with the
// place of the fault.
import { type Static, type TProperties, type TSchema, Type } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import { messageOf, type Pause } from '../document/failure.ts';
import { FINGERPRINT_VERSION } from '../document/report-format.ts';
import { schemaFaults } from '../document/read-report.ts';

export type Refuse = (fault: string) => never;

const text = Type.String();
const number = Type.Number();
const any = Type.Unknown();
const oneOf = <const T extends string>(...values: readonly T[]) =>
  Type.Union(values.map((value) => Type.Literal(value)));
const level = oneOf('none', 'note', 'warning', 'error');
const list = <T extends TSchema>(items: T) => Type.Array(items);
const partial = <T extends TProperties>(properties: T) => Type.Partial(Type.Object(properties));

const message = partial({ id: text, text, markdown: text, arguments: list(text) });
const messages = Type.Record(text, message);
const artifactLocation = partial({ uri: text, uriBaseId: text, index: number });
const ends = { startLine: number, startColumn: number, endLine: number, endColumn: number };
const region = partial({ ...ends, charOffset: number, charLength: number, snippet: message });
const physicalLocation = partial({ artifactLocation, region, contextRegion: region });
const logicalLocations = list(partial({ name: text, fullyQualifiedName: text, index: number }));
const locations = list(partial({ physicalLocation, logicalLocations }));
const toolComponent = partial({ name: text, guid: text, index: number });
const ruleReference = partial({ id: text, guid: text, index: number, toolComponent });
const configuration = partial({ level });
const rule = partial({
  ...{ id: text, guid: text, helpUri: text, messageStrings: messages, defaultConfiguration: configuration },
  ...{ fullDescription: message, shortDescription: message, properties: partial({ tags: any, cwe: any }) },
  relationships: list(partial({ target: ruleReference })),
});
const component = partial({
  ...{ name: text, guid: text, version: text, semanticVersion: text, informationUri: text },
  ...{ rules: list(rule), globalMessageStrings: messages },
});
const reviewed = oneOf('accepted', 'underReview', 'rejected');
const result = partial({
  ...{ ruleId: text, ruleIndex: number, rule: ruleReference, level, message, locations },
  kind: oneOf('notApplicable', 'pass', 'fail', 'review', 'open', 'informational'),
  baselineState: oneOf('new', 'unchanged', 'updated', 'absent'),
  suppressions: list(partial({ kind: oneOf('inSource', 'external'), status: reviewed, state: reviewed })),
  partialFingerprints: partial({ [FINGERPRINT_VERSION]: any }),
  provenance: partial({ invocationIndex: number }),
  fixes: list(partial({ description: message })),
  taxa: list(ruleReference),
  properties: partial({ suggestion: any, tags: any, cwe: any }),
});
const notification = partial({ level, message, locations, descriptor: ruleReference, associatedRule: ruleReference });
const invocation = partial({
  ...{ executionSuccessful: Type.Boolean(), processStartFailureMessage: text },
  toolExecutionNotifications: list(notification),
  toolConfigurationNotifications: list(notification),
  workingDirectory: artifactLocation,
  ruleConfigurationOverrides: list(partial({ configuration, descriptor: ruleReference })),
});
const none = (description: string) => Type.Array(any, { maxItems: 0, description });
/** What decides the findings, their levels or the outcome must be in the run. */
const external = (fault: string) =>
  partial({
    ...{ results: none(`the results ${fault}`), invocations: none(`the invocations ${fault}`) },
    ...{ driver: Type.Undefined({ description: `the rules ${fault}` }), extensions: none(`the rules ${fault}`) },
  });
const elsewhere = external('are in another file, which is not read');
const outside = external('are outside their run, which is not supported');
const driver = Type.Intersect([component, Type.Object({ name: text })]);
const run = Type.Object({
  tool: Type.Object({ driver, extensions: Type.Optional(list(component)) }),
  ...partial({
    ...{ results: list(result), artifacts: list(partial({ location: artifactLocation })), logicalLocations },
    columnKind: oneOf('utf16CodeUnits', 'unicodeCodePoints'),
    taxonomies: list(partial({ name: text, guid: text, taxa: list(partial({ id: text, guid: text })) })),
    ...{ invocations: list(invocation), originalUriBaseIds: Type.Record(text, artifactLocation) },
    externalPropertyFileReferences: elsewhere,
  }).properties,
});
const log = Type.Object({
  version: Type.Literal('2.1.0'),
  runs: list(run),
  inlineExternalProperties: Type.Optional(list(outside)),
});

export type Run = Static<typeof run>;
export type Result = Static<typeof result>;
export type Rule = Static<typeof rule>;
export type Message = Static<typeof message>;
export type Invocation = Static<typeof invocation>;
export type Notification = Static<typeof notification>;
export type Component = Static<typeof component>;
export type ArtifactLocation = Static<typeof artifactLocation>;

const isLog = TypeCompiler.Compile(log);

export async function runsIn(content: string, refuse: Refuse, pause: Pause): Promise<Run[]> {
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch (cause) {
    return refuse(`not JSON: ${messageOf(cause)}`);
  }
  await removeNulls(value, pause);
  const [fault] = isLog.Check(value) ? [] : schemaFaults(log, value);
  if (fault !== undefined) return refuse(`${fault.pointer === '' ? '' : `${fault.pointer}: `}${fault.message}`);
  return (value as Static<typeof log>).runs;
}

/** `null` is the same as an absent member, because many tools write it; `runs` may be null by SARIF's own schema. */
async function removeNulls(value: unknown, pause: Pause): Promise<void> {
  const open = [value];
  for (let owner = open.pop(); owner !== undefined; owner = open.pop()) {
    if (typeof owner !== 'object' || owner === null) continue;
    await pause();
    for (const [name, member] of Object.entries(owner) as [string, unknown][])
      if (typeof member === 'object' && member !== null) open.push(member);
      else if (member === null && name === 'runs') Object.assign(owner, { runs: [] });
      else if (member === null && !Array.isArray(owner)) Reflect.deleteProperty(owner, name);
  }
}
