// Limits on event schemas, enforced when files are read, so that no event takes long to check.
//
// Refuses `$async` and `$dynamicRef`; references that form a cycle, in one file or across files; `uniqueItems`,
// unless the items are scalars or `maxItems` is small; and schemas whose worst event costs more than COST_MAX.
//
// The cost of a schema is the sum of the costs of its subschemas, each multiplied by the number of values that may
// reach it. A check takes about 8 ns. A failed alternative takes 80 ns, because Ajv creates an error object.
// Subschemas are visited as Ajv compiles them: a reference leads to its target. A definition costs nothing by itself.

/** Maximum number of values in an event of the default maximum length: 256 KiB of `0,`. */
const VALUES_MAX = 131_072;
const COST_MAX = 5_000_000;
const ALTERNATIVE_COST = 10;
/** Costs of a comparison with a constant. */
const OBJECT_COST = 20;
const SCALAR_COST = 0.1;
/** Maximum number of subschemas after all references are expanded. */
const SUBSCHEMAS_MAX = 20_000;
const DEPTH_MAX = 100;
const UNIQUE_ITEMS_MAX = 1_000;

const SCALARS = new Set(['string', 'number', 'integer', 'boolean', 'null']);
/** Keywords whose members are named schemas. */
const BY_NAME = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']);
/** Keywords whose values are data, not schemas. */
const DATA = new Set(['const', 'enum', 'default', 'examples']);
/** Keywords whose subschema applies to each member of a value. */
const REPEATED = new Set([
  'items',
  'contains',
  'additionalProperties',
  'patternProperties',
  'propertyNames',
  'unevaluatedItems',
  'unevaluatedProperties',
]);
const ALTERNATIVES = new Set(['anyOf', 'oneOf', 'not', 'if', 'contains']);
/** Keywords whose subschemas apply only through references. */
const DEFINITIONS = new Set(['$defs', 'definitions']);

type Schema = Readonly<Record<string, unknown>>;

interface Child {
  readonly keyword: string;
  readonly place: string;
  readonly schema: Schema;
}

class Refused extends Error {}

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns the first fault of each unusable file, by file name. */
export function schemaFaults(files: ReadonlyMap<string, Schema>): ReadonlyMap<string, string> {
  const references = new References(files);
  const faults = new Map<string, string>();
  for (const [name, schema] of files) {
    try {
      new Cost(references).of(schema, 1, '#');
    } catch (cause) {
      if (!(cause instanceof Refused)) throw cause;
      faults.set(name, cause.message);
    }
  }
  return faults;
}

function refuseKeywords(schema: Schema, place: string): void {
  for (const keyword of ['$async', '$dynamicRef'])
    if (keyword in schema) throw new Refused(`${place}/${keyword}: ${keyword} is not supported`);
  if (schema['uniqueItems'] === true && !hasScalarItems(schema) && !(maxOf(schema, 'maxItems') <= UNIQUE_ITEMS_MAX))
    throw new Refused(`${place}/uniqueItems: needs items of scalar types, or maxItems of at most ${UNIQUE_ITEMS_MAX}`);
}

function hasScalarItems({ items }: Schema): boolean {
  const types = isSchema(items) ? [items['type']].flat() : [];
  return types.length > 0 && types.every((type) => SCALARS.has(String(type)));
}

const maxOf = (schema: Schema, keyword: string): number => {
  const max = schema[keyword];
  return typeof max === 'number' ? max : Number.POSITIVE_INFINITY;
};

function* children(schema: Schema, place: string): Generator<Child> {
  for (const [keyword, value] of Object.entries(schema)) {
    if (DATA.has(keyword)) continue;
    const at = `${place}/${keyword}`;
    if (!BY_NAME.has(keyword) && isSchema(value)) yield { keyword, place: at, schema: value };
    else if (typeof value === 'object' && value !== null)
      for (const [name, one] of Object.entries(value)) {
        const escaped = name.replaceAll('~', '~0').replaceAll('/', '~1');
        if (isSchema(one)) yield { keyword, place: `${at}/${escaped}`, schema: one };
      }
  }
}

/** Resolves `$ref` within and across files. */
class References {
  readonly #named = new Map<string, Schema>();
  readonly #bases = new Map<Schema, string>();

  constructor(files: ReadonlyMap<string, Schema>) {
    for (const [name, schema] of files) {
      const file = resolved(encodeURI(name), 'schema:///') ?? 'schema:///';
      this.#named.set(file, schema);
      this.#collect(schema, file);
    }
  }

  /** Returns the value that a reference in `schema` points to, or `undefined` if there is none. */
  target(schema: Schema, reference: string): unknown {
    const url = resolved(reference, this.#bases.get(schema) ?? 'schema:///');
    if (url === undefined) return undefined;
    const [document = '', fragment = ''] = url.split('#');
    if (!fragment.startsWith('/')) return this.#named.get(fragment === '' ? document : url);
    let value: unknown = this.#named.get(document);
    for (const part of fragment.slice(1).split('/')) {
      const name = unescaped(part);
      value = typeof value === 'object' && value !== null ? (value as Schema)[name] : undefined;
    }
    // A pointer can lead to a schema inside data, such as `default`, which the constructor skips.
    if (isSchema(value) && !this.#bases.has(value)) this.#collect(value, document);
    return value;
  }

  #collect(top: Schema, file: string): void {
    const found = [{ schema: top, outer: file }];
    for (const { schema, outer } of found) {
      const { $id: id, $anchor, $dynamicAnchor } = schema;
      const base = (typeof id === 'string' ? resolved(id, outer)?.split('#')[0] : undefined) ?? outer;
      if (base !== outer) this.#named.set(base, schema);
      for (const anchor of [$anchor, $dynamicAnchor])
        if (typeof anchor === 'string') this.#named.set(`${base}#${anchor}`, schema);
      this.#bases.set(schema, base);
      for (const child of children(schema, '')) found.push({ schema: child.schema, outer: base });
    }
  }
}

const resolved = (reference: string, base: string): string | undefined =>
  URL.canParse(reference, base) ? new URL(reference, base).href : undefined;

function unescaped(part: string): string {
  try {
    return decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
  } catch {
    return part;
  }
}

/** Computes the cost of one file's schema. Throws a Refused for the reasons listed at the top. */
class Cost {
  readonly #references: References;
  /** The schemas from the root to the current one. */
  readonly #path = new Set<Schema>();
  #left = SUBSCHEMAS_MAX;

  constructor(references: References) {
    this.#references = references;
  }

  /** Returns the cost of a schema that `values` values of one event may reach. */
  of(schema: Schema, values: number, place: string): number {
    if (this.#path.has(schema)) throw new Refused(`${place}: its references form a cycle`);
    if (this.#path.size > DEPTH_MAX) throw new Refused(`${place}: nested deeper than ${DEPTH_MAX}`);
    this.#left -= 1;
    if (this.#left < 0) throw new Refused(`${place}: expands to more than ${SUBSCHEMAS_MAX} subschemas`);
    refuseKeywords(schema, place);
    this.#path.add(schema);
    let cost = values * ownCost(schema);
    let members = 0;
    let memberMax = 0;
    for (const { keyword, place: at, schema: sub } of children(schema, place)) {
      if (DEFINITIONS.has(keyword)) {
        // Definitions in a referenced schema are checked with the file that contains them.
        if (!place.includes('/$ref')) this.of(sub, 1, at);
        continue;
      }
      const reached = REPEATED.has(keyword) ? repeated(schema, keyword, values) : values;
      const subCost = this.of(sub, reached, at) + (ALTERNATIVES.has(keyword) ? reached * ALTERNATIVE_COST : 0);
      if (keyword === 'properties') {
        members += subCost;
        memberMax = Math.max(memberMax, (subCost * VALUES_MAX) / values);
      } else cost += subCost;
    }
    // All members are values of the event too, so VALUES_MAX also limits their number.
    cost += Math.min(members, memberMax);
    const { $ref: reference } = schema;
    if (typeof reference === 'string') {
      const target = this.#references.target(schema, reference);
      if (isSchema(target)) cost += this.of(target, values, `${place}/$ref`);
      // Ajv would also resolve references to its own meta-schemas, whose cost has no limit.
      else if (typeof target !== 'boolean') throw new Refused(`can't resolve reference ${reference} from ${place}`);
    }
    if (cost > COST_MAX)
      throw new Refused(`${place}: too many checks for an event of ${VALUES_MAX} values; limit its arrays by maxItems`);
    this.#path.delete(schema);
    return cost;
  }
}

function repeated(schema: Schema, keyword: string, values: number): number {
  const max = maxOf(
    schema,
    keyword === 'contains' || keyword.toLowerCase().endsWith('items') ? 'maxItems' : 'maxProperties',
  );
  return Math.max(1, Math.min(VALUES_MAX, values * max));
}

function ownCost({ properties, required, enum: values, const: value }: Schema): number {
  const names = isSchema(properties) ? Object.keys(properties).length / 10 : 0;
  const wanted = Array.isArray(required) ? required.length / 5 : 0;
  const constants = [...(Array.isArray(values) ? (values as unknown[]) : []), value];
  const compared = constants.reduce<number>(
    (sum, one) => sum + (typeof one === 'object' ? OBJECT_COST : SCALAR_COST),
    0,
  );
  return 1 + names + wanted + compared;
}

/** Returns the same text for equal JSON values: members are sorted by name. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join()}]`;
  if (!isSchema(value)) return typeof value === 'number' ? String(value + 0) : JSON.stringify(value);
  const members = Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return `{${members.map(([name, one]) => `${JSON.stringify(name)}:${canonicalJson(one)}`).join()}}`;
}
