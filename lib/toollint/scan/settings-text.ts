// What, beside its bytes, the messages about a file depend on: the resolved configuration, and the versions of the
// linter, the runtime and this tool. Two equal texts mean equal messages.
//
// Limit: of a plugin that tells no version only the rules' own functions are seen, not what they call.
import { hash } from 'node:crypto';
import { TOOL_VERSION } from '../document/tool-identity.ts';

type Plugins = Readonly<
  Record<
    string,
    { readonly meta?: { version?: unknown }; readonly rules?: Readonly<Record<string, { create?: unknown }>> }
  >
>;

/** A digest; undefined where the messages depend on more than can be told. */
export function dependenceOf(config: { plugins?: Plugins }, versions: readonly string[]): string | undefined {
  let text: string;
  try {
    // ESLint's own form of a configuration for its cache: it throws for a parser or processor without a name.
    text = JSON.stringify(config);
  } catch {
    return undefined;
  }
  const { languageOptions } = JSON.parse(text) as { languageOptions?: { parserOptions?: Record<string, unknown> } };
  const options = languageOptions?.parserOptions ?? {};
  // Rules that know types look at other files.
  if (['project', 'projectService', 'programs', 'EXPERIMENTAL_useProjectService'].some((name) => options[name]))
    return undefined;
  return hash(
    'sha256',
    JSON.stringify([TOOL_VERSION, process.version, ...versions, ...localRules(config), text]),
    'base64',
  );
}

/** The source of the rules of plugins that tell no version: they are likely part of the code that is linted. */
function localRules(config: { plugins?: Plugins }): string[] {
  const local = Object.entries(config.plugins ?? {}).filter(
    ([name, { meta }]) => name !== '@' && meta?.version === undefined,
  );
  return local.flatMap(([name, { rules = {} }]) =>
    Object.keys(rules).map((id) => `${name}/${id} ${String(rules[id]?.create)}`),
  );
}
