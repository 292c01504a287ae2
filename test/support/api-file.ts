// openapi/events.yaml as tests read it: its operations, and each documented response with a compiled schema.
import { readFileSync } from 'node:fs';
import { METHODS } from 'node:http';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { parse } from 'yaml';

export const API_FILE = new URL('../../openapi/events.yaml', import.meta.url).pathname;

export type Json = string | number | boolean | null | readonly Json[] | { readonly [member: string]: Json };
export type JsonObject = { readonly [member: string]: Json };

const document = parse(readFileSync(API_FILE, 'utf8')) as JsonObject;

// Strict mode turns a misspelled keyword into an error. The file as a whole is not a schema, so its named schemas
// become `$defs`, and references are rewritten to match.
const ajv = new Ajv2020({ allErrors: true, strict: true, strictTypes: false });
formats.default(ajv);
ajv.addVocabulary(['discriminator']);
ajv.addSchema({ $id: 'events', $defs: asSchema((document['components'] as JsonObject)['schemas'] ?? null) });

function asSchema(value: Json): Json {
  return JSON.parse(JSON.stringify(value).replaceAll('"#/components/schemas/', '"events#/$defs/')) as Json;
}

export function at(pointer: string): Json {
  let value: Json = document;
  for (const part of pointer.split('/').slice(1)) {
    value = (value as JsonObject)[part.replaceAll('~1', '/').replaceAll('~0', '~')] ?? null;
  }
  return value;
}

export const pointer = (...parts: readonly string[]): string =>
  parts.map((part) => `/${part.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');

export function deref(from: string): string {
  const value = at(from);
  const reference = isObject(value) ? value['$ref'] : undefined;
  return typeof reference === 'string' ? deref(reference.slice(1)) : from;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function* nodes(from = ''): Generator<readonly [string, JsonObject]> {
  const value = at(from);
  if (isObject(value)) yield [from, value];
  if (typeof value !== 'object' || value === null) return;
  for (const key of Object.keys(value)) yield* nodes(from + pointer(key));
}

/** Compiles a schema. If `closed` is true, members that the schema does not name are errors. */
export function schemaAt(from: string, closed = false): ValidateFunction {
  const schema = asSchema(at(from)) as JsonObject;
  return ajv.compile(closed ? { allOf: [schema], unevaluatedProperties: false } : schema);
}

export interface DocumentedHeader {
  readonly name: string;
  readonly required: boolean;
  readonly check: ValidateFunction;
  readonly isInteger: boolean;
}

/** A response in one of its media types. `scope` is a method and a path, or the name of an extension. */
export interface DocumentedResponse {
  readonly scope: string;
  readonly status: number;
  readonly headers: readonly DocumentedHeader[];
  readonly mediaType: string;
  readonly check: ValidateFunction;
  /**
   * The possible values of `code`, or of `status` if there is no `code`, in the body. Each value is documented as a
   * separate response. If the array is empty, any body matches.
   */
  readonly variants: readonly string[];
}

export const PATHS = Object.entries(at('/paths') as Record<string, JsonObject>).map(([path, item]) => ({
  path,
  methods: Object.keys(item)
    .map((key) => key.toUpperCase())
    .filter((method) => METHODS.includes(method)),
}));

const OTHER_METHODS = 'x-other-methods';
export const OTHER_PATHS = 'x-other-paths';
export const UNREADABLE = 'x-unreadable-requests';

export const RESPONSES: readonly DocumentedResponse[] = [
  ...PATHS.flatMap(({ path, methods }) => [
    ...methods.flatMap((method) =>
      responsesAt(`${method} ${path}`, pointer('paths', path, method.toLowerCase(), 'responses')),
    ),
    ...responsesAt(`${OTHER_METHODS} ${path}`, pointer('paths', path, OTHER_METHODS)),
  ]),
  ...responsesAt(OTHER_PATHS, pointer(OTHER_PATHS)),
  ...responsesAt(UNREADABLE, pointer(UNREADABLE)),
];

export function scopeOf(method: string, target: string): string {
  const path = target.replace(/\?.*$/, '');
  const known = PATHS.find((one) => new RegExp(`^${one.path.replace(/\{\w+\}/g, '[^/]+')}$`).test(path));
  if (known === undefined) return OTHER_PATHS;
  return known.methods.includes(method) ? `${method} ${known.path}` : `${OTHER_METHODS} ${known.path}`;
}

function responsesAt(scope: string, from: string): DocumentedResponse[] {
  return Object.keys(at(from) as JsonObject).flatMap((status) => {
    const response = deref(from + pointer(status));
    const mediaTypes = Object.keys((at(`${response}/content`) ?? {}) as JsonObject);
    if (mediaTypes.length === 0) throw new Error(`${response}: no media type`);
    return mediaTypes.map((mediaType) => {
      const schema = response + pointer('content', mediaType, 'schema');
      const isProblem = mediaType === 'application/problem+json';
      return {
        scope,
        status: Number(status),
        headers: headersAt(response),
        mediaType,
        check: schemaAt(schema, mediaType.endsWith('json')),
        variants: constantsOf(deref(schema), isProblem ? 'code' : 'status'),
      };
    });
  });
}

function headersAt(response: string): DocumentedHeader[] {
  return Object.keys((at(`${response}/headers`) ?? {}) as JsonObject).map((name) => {
    const header = deref(response + pointer('headers', name));
    const { required } = at(header) as JsonObject;
    const { type } = at(`${header}/schema`) as JsonObject;
    return {
      name: name.toLowerCase(),
      required: required === true,
      check: schemaAt(`${header}/schema`),
      isInteger: type === 'integer',
    };
  });
}

function constantsOf(schema: string, member: string): string[] {
  const value = at(schema) as JsonObject;
  if (Array.isArray(value['oneOf'])) {
    return value['oneOf'].flatMap((_, index) => constantsOf(deref(`${schema}/oneOf/${index}`), member));
  }
  const constant = isObject(value['properties'])
    ? (value['properties'][member] as JsonObject | undefined)?.['const']
    : undefined;
  return typeof constant === 'string' ? [constant] : [];
}
