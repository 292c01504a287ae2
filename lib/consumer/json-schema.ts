// JSON Schema 2020-12 by Ajv, with the differences from the standard that Ajv has: each is either corrected in the
// schema before Ajv compiles it, or refused by the keyword's name.
//
// Facts: Ajv computes `multipleOf` with doubles, so 19.99 is not a multiple of 0.01. It skips members named
// `__proto__`. A resource that consists of `$id` and `$ref` refers to itself for ever. It evaluates `else` without
// `then` wrongly. `$dynamicRef` and `unevaluatedItems` are wrong in several ways, and `$vocabulary` is ignored.
import { Ajv2020 } from 'ajv/dist/2020.js';

const REFUSED = ['$dynamicRef', '$vocabulary', 'unevaluatedItems'];
const DECIMAL = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/;

/** Keywords whose values are schemas, lists of schemas, or schemas by name. */
const WITH_SCHEMA = [
  ...['not', 'if', 'then', 'else', 'items', 'contains', 'propertyNames'],
  ...['additionalProperties', 'unevaluatedProperties', 'contentSchema'],
];
const WITH_SCHEMAS = [
  ...['allOf', 'anyOf', 'oneOf', 'prefixItems'],
  ...['properties', 'patternProperties', 'dependentSchemas', 'dependencies', '$defs', 'definitions'],
];

type Schema = Record<string, unknown>;

export function newAjv(): Ajv2020 {
  const ajv = new Ajv2020({
    strict: true,
    strictTypes: false,
    strictTuples: false,
    strictRequired: false,
    // 1e400 is a number above any maximum.
    strictNumbers: false,
    validateFormats: false,
    ownProperties: true,
    logger: false,
  });
  // Ajv resolves `$anchor`, but does not declare it, so strict mode would refuse it.
  ajv.addKeyword('$anchor');
  ajv.removeKeyword('multipleOf');
  ajv.addKeyword({
    keyword: 'multipleOf',
    type: 'number',
    schemaType: 'number',
    metaSchema: { type: 'number', exclusiveMinimum: 0 },
    compile: (divisor: number) => (value: number) => isMultiple(value, divisor),
    error: { message: ({ schema }) => `must be multiple of ${String(schema)}` },
  });
  return ajv;
}

/** Changes a schema that was just parsed. Throws if it has a keyword that Ajv does not judge as the standard says. */
export function corrected(schema: object): object {
  correct(schema as Schema);
  return schema;
}

function correct(schema: Schema): void {
  const has = (keyword: string): boolean => Object.hasOwn(schema, keyword);
  const refused = REFUSED.find(has);
  if (refused !== undefined) throw new Error(`the keyword ${refused} is not supported`);
  if (['dependentSchemas', 'dependentRequired'].some((keyword) => protoOf(schema[keyword]) !== undefined))
    throw new Error('rules that depend on the member __proto__ are not supported');
  const inner = [
    ...WITH_SCHEMA.map((keyword) => schema[keyword]),
    ...WITH_SCHEMAS.flatMap((keyword) => Object.values(schema[keyword] ?? {}) as unknown[]),
  ];
  for (const one of inner) if (isSchema(one)) correct(one);
  const proto = protoOf(schema['properties']);
  if (proto !== undefined) {
    schema['patternProperties'] = { ...(schema['patternProperties'] as Schema | undefined), '^__proto__$': proto };
    delete (schema['properties'] as Schema)['__proto__'];
  }
  const { $ref, if: condition, else: otherwise } = schema;
  const instead: unknown[] = [];
  if (has('$id') && has('$ref')) {
    instead.push({ $ref });
    delete schema['$ref'];
  }
  if (has('if') && has('else') && !isRule(schema['then'])) {
    instead.push({ anyOf: [condition, { allOf: [{ not: condition }, otherwise] }] });
    for (const keyword of ['if', 'then', 'else']) delete schema[keyword];
  }
  if (instead.length > 0) schema['allOf'] = [...((schema['allOf'] as unknown[] | undefined) ?? []), ...instead];
}

const protoOf = (members: unknown): unknown => Object.getOwnPropertyDescriptor(members ?? {}, '__proto__')?.value;

const isSchema = (one: unknown): one is Schema => typeof one === 'object' && one !== null && !Array.isArray(one);

/** False for schemas that accept everything. */
const isRule = (one: unknown): boolean => one === false || (isSchema(one) && Object.keys(one).length > 0);

/** Exact for decimal numbers: JSON has no others. */
export function isMultiple(value: number, divisor: number): boolean {
  if (!Number.isFinite(value)) return false;
  if (Number.isSafeInteger(value) && Number.isSafeInteger(divisor)) return value % divisor === 0;
  const [a, b] = [decimal(value), decimal(divisor)];
  const exponent = Math.min(a.exponent, b.exponent);
  const scaled = ({ digits, exponent: own }: Decimal): bigint => digits * 10n ** BigInt(own - exponent);
  return scaled(a) % scaled(b) === 0n;
}
interface Decimal {
  readonly digits: bigint;
  readonly exponent: number;
}
function decimal(value: number): Decimal {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = DECIMAL.exec(String(value)) ?? [];
  return { digits: BigInt(`${sign}${whole}${fraction}`), exponent: Number(exponent) - fraction.length };
}
