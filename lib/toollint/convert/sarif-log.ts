// The part of a SARIF 2.1.0 log (OASIS) that an import reads, as a schema. A log of another form is refused with the
// place of the fault.
import { type Static, type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import { schemaFaults } from '../document/read-report.ts';

export type Refuse = (fault: string) => never;

const text = () => Type.Optional(Type.String());
const number = () => Type.Optional(Type.Number());
const anything = () => Type.Optional(Type.Unknown());
const list = <T extends TSchema>(items: T) => Type.Optional(Type.Array(items));
const map = <T extends TSchema>(values: T) => Type.Optional(Type.Record(Type.String(), values));
const object = <T extends TProperties>(properties: T) => Type.Object(properties);
const member = <T extends TProperties>(properties: T) => Type.Optional(object(properties));
const maybe = <T extends TObject>(schema: T) => Type.Optional(schema);

const message = object({ id: text(), text: text(), markdown: text(), arguments: list(Type.String()) });
const artifactLocation = object({ uri: text(), uriBaseId: text(), index: number() });
const snippet = () => member({ text: text() });
const region = { startLine: number(), startColumn: number(), endLine: number(), endColumn: number() };
const location = object({
  physicalLocation: member({
    artifactLocation: maybe(artifactLocation),
    region: member({ ...region, snippet: snippet() }),
    contextRegion: member({ snippet: snippet() }),
  }),
});
const componentReference = { name: text(), guid: text(), index: number() };
const ruleReference = object({ id: text(), guid: text(), index: number(), toolComponent: member(componentReference) });
const configuration = () => member({ level: text() });
const rule = object({
  ...{ id: text(), guid: text(), helpUri: text(), messageStrings: map(message), defaultConfiguration: configuration() },
  fullDescription: maybe(message),
  shortDescription: maybe(message),
  properties: member({ tags: anything() }),
});
const component = { name: text(), guid: text(), rules: list(rule), globalMessageStrings: map(message) };
const result = object({
  ...{ ruleId: text(), ruleIndex: number(), rule: maybe(ruleReference), kind: text(), level: text() },
  message: maybe(message),
  locations: list(location),
  baselineState: text(),
  suppressions: list(object({ status: text() })),
  provenance: member({ invocationIndex: number() }),
  fixes: list(object({ description: maybe(message) })),
  properties: member({ suggestion: anything() }),
});
const notification = object({
  ...{ level: text(), message: maybe(message), locations: list(location) },
  descriptor: maybe(ruleReference),
  associatedRule: maybe(ruleReference),
});
const invocation = object({
  executionSuccessful: anything(),
  toolExecutionNotifications: list(notification),
  toolConfigurationNotifications: list(notification),
  workingDirectory: maybe(artifactLocation),
  ruleConfigurationOverrides: list(object({ configuration: configuration(), descriptor: maybe(ruleReference) })),
});
const run = object({
  tool: object({
    driver: object({
      ...{ ...component, name: Type.String(), version: text(), semanticVersion: text(), informationUri: text() },
    }),
    extensions: list(object(component)),
  }),
  results: list(result),
  artifacts: list(object({ location: maybe(artifactLocation) })),
  invocations: list(invocation),
  originalUriBaseIds: map(artifactLocation),
  columnKind: text(),
  externalPropertyFileReferences: member({ results: list(Type.Unknown()), invocations: list(Type.Unknown()) }),
});
const log = object({
  version: Type.Literal('2.1.0'),
  runs: Type.Array(run),
  inlineExternalProperties: list(object({ results: list(Type.Unknown()) })),
});

export type SarifRun = Static<typeof run>;
export type SarifResult = Static<typeof result>;
export type SarifRule = Static<typeof rule>;
export type SarifMessage = Static<typeof message>;
export type SarifInvocation = Static<typeof invocation>;
export type SarifComponent = Static<TObject<typeof component>>;
export type RuleReference = Static<typeof ruleReference>;
export type ArtifactLocation = Static<typeof artifactLocation>;

const isLog = TypeCompiler.Compile(log);

/** `null` is the same as an absent member, because many tools write it; `runs` may be null by SARIF's own schema. */
export function runsIn(content: string, refuse: Refuse): SarifRun[] {
  let value: unknown;
  try {
    value = JSON.parse(content, function (this: unknown, name: string, member: unknown) {
      return member !== null || Array.isArray(this) ? member : name === 'runs' ? [] : undefined;
    });
  } catch {
    return refuse('not JSON');
  }
  const [fault] = isLog.Check(value) ? [] : schemaFaults(log, value);
  if (fault !== undefined) return refuse(`${fault.pointer === '' ? '' : `${fault.pointer}: `}${fault.message}`);
  const { runs, inlineExternalProperties = [] } = value as Static<typeof log>;
  for (const [index, { results = [] }] of inlineExternalProperties.entries())
    if (results.length > 0)
      refuse(`/inlineExternalProperties/${index}/results: results outside their run are not supported`);
  for (const [index, { externalPropertyFileReferences: elsewhere }] of runs.entries())
    for (const name of ['results', 'invocations'] as const)
      if (elsewhere?.[name] !== undefined && elsewhere[name].length > 0)
        refuse(
          `/runs/${index}/externalPropertyFileReferences/${name}: the ${name} are in another file, which is not read`,
        );
  return runs;
}
