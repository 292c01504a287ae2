// The producers file (INGEST_PRODUCERS_FILE) in JSON:
//
//   { "producers": { "spiffe://shop/web": { "rate": 100, "types": ["order.*"] },
//                    "spiffe://shop/old": { "disabled": "moved to spiffe://shop/web" },
//                    "spiffe://prod/*": { "audience": ["ingest-gateway"] },
//                    "*": { "rate": 10 } } }
//
// In keys and types, `*` matches any characters. A producer's own row applies to it, or otherwise the row with the
// longest matching pattern. `rate` and `lookUpRate` are per second and per process. A missing member restricts
// nothing.
import { Type, type Static } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import { messageOf } from '../process/message-of.ts';
import { errno, JSON_BYTES_MAX, readOperatorFile, strictJson, textOf } from '../process/operator-file.ts';
import { comparableName } from '../process/producer-name.ts';
import { matchesParts } from '../process/wildcard.ts';

const Rules = Type.Object(
  {
    rate: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1_000_000 })),
    lookUpRate: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1_000_000 })),
    types: Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 256, pattern: '^[A-Za-z0-9_.*-]+$' }))),
    disabled: Type.Optional(Type.String({ minLength: 1, maxLength: 256, pattern: '^[^\\u0000-\\u001F\\u007F]*$' })),
    audience: Type.Optional(Type.Array(Type.String({ pattern: '^[\\x21-\\x7E]{1,200}$' }))),
  },
  { additionalProperties: false },
);

const File = TypeCompiler.Compile(
  Type.Object({ producers: Type.Record(Type.String(), Rules) }, { additionalProperties: false }),
);

/**
 * The row of a producer. `disabled` is the reason why it may send nothing. Its certificate and token need not contain
 * the audiences in `audience`.
 */
interface ProducerRules extends Static<typeof Rules> {
  readonly allowsType: (type: string) => boolean;
}

const CACHE_MAX = 10_000;
const UNRESTRICTED: ProducerRules = { allowsType: () => true };

export class Producers {
  static readonly UNRESTRICTED = new Producers(new Map());
  readonly #rules: ReadonlyMap<string, ProducerRules>;
  readonly #patterns: readonly { readonly parts: readonly string[]; readonly rules: ProducerRules }[];
  /** A cache by exact name, because every request needs its producer's rules. */
  readonly #cache = new Map<string, ProducerRules>();

  constructor(rules: ReadonlyMap<string, ProducerRules>) {
    this.#rules = rules;
    this.#patterns = [...rules]
      .filter(([name]) => name.includes('*'))
      .sort(([one], [other]) => other.length - one.length)
      .map(([name, row]) => ({ parts: name.split(/\*+/), rules: row }));
  }

  /** Throws an Error with up to 20 problems, each with its JSON Pointer. */
  static parse(text: string): Producers {
    let value: unknown;
    try {
      value = strictJson(text);
    } catch (cause) {
      throw new Error(`not JSON (${messageOf(cause)})`, { cause });
    }
    if (!File.Check(value)) {
      const problems = [...File.Errors(value)].map(({ path, message }) => `${path || '/'}: ${message}`);
      throw new Error([...new Set(problems)].slice(0, 20).join('; '));
    }
    const rows = new Map<string, ProducerRules>();
    for (const [name, rules] of Object.entries(value.producers)) {
      if (rows.has(comparableName(name)))
        throw new Error(`/producers: two rows name the same producer, ${JSON.stringify(name)}`);
      rows.set(comparableName(name), { ...rules, allowsType: typeMatcher(rules.types) });
    }
    return new Producers(rows);
  }

  static async read(path: string, read = readOperatorFile): Promise<Producers> {
    const text = await read(path, JSON_BYTES_MAX).then(textOf, (cause: unknown) => {
      throw new Error(`expected a readable file (${errno(cause)})`, { cause });
    });
    return Producers.parse(text);
  }

  /** Returns the first ten rows that grant an audience other than the gateway's `own`. */
  foreignAudiences(own: string): (readonly [row: string, audience: string])[] {
    return [...this.#rules]
      .flatMap(([row, { audience = [] }]) => audience.filter((one) => one !== own).map((one) => [row, one] as const))
      .slice(0, 10);
  }

  rulesFor(producer: string): ProducerRules {
    if (this.#rules.size === 0) return UNRESTRICTED;
    const cached = this.#cache.get(producer);
    if (cached !== undefined) return cached;
    const name = comparableName(producer);
    const rules =
      this.#rules.get(name) ?? this.#patterns.find(({ parts }) => matchesParts(parts, name))?.rules ?? UNRESTRICTED;
    if (this.#cache.size >= CACHE_MAX) this.#cache.clear();
    this.#cache.set(producer, rules);
    return rules;
  }
}

function typeMatcher(patterns: readonly string[] | undefined): (type: string) => boolean {
  if (patterns === undefined) return UNRESTRICTED.allowsType;
  const exact = new Set(patterns);
  const wild = patterns.filter((pattern) => pattern.includes('*')).map((pattern) => pattern.split(/\*+/));
  return (type) => exact.has(type) || wild.some((parts) => matchesParts(parts, type));
}
