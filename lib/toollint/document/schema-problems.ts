// Lists what the schema says against a value, each with the JSON Pointer of the member it is about. Runs only after the
// compiled check has said no. A missing member is named by the pointer that it would have.
import { type TSchema } from '@sinclair/typebox';
import { Errors, type ValueError, ValueErrorType } from '@sinclair/typebox/errors';

/** One contradiction to the schema. */
interface SchemaProblem {
  readonly pointer: string;
  readonly message: string;
}

/** All contradictions, in the schema's order; pointers begin with `base`. */
export function schemaProblems(schema: TSchema, value: unknown, base: string): SchemaProblem[] {
  const problems = new Map<string, SchemaProblem>();
  for (const error of Errors(schema, [], value)) {
    for (const { path, message } of inner(error)) {
      const pointer = base + path;
      if (!problems.has(pointer)) problems.set(pointer, { pointer, message });
    }
  }
  return [...problems.values()];
}

/** A union's own error says little: for an object that fits no variant the variant for objects is asked. */
function inner(error: ValueError): { path: string; message: string }[] {
  if (error.type === ValueErrorType.ObjectRequiredProperty)
    return [{ path: error.path, message: 'the member is missing' }];
  if (error.type !== ValueErrorType.Union) return [{ path: error.path, message: describe(error) }];
  const variants = error.schema['anyOf'] as TSchema[];
  const objects = variants.find((variant) => variant['type'] === 'object');
  const isObject = typeof error.value === 'object' && error.value !== null && !Array.isArray(error.value);
  if (objects !== undefined && isObject) {
    return schemaProblems(objects, error.value, error.path).map(({ pointer, message }) => ({ path: pointer, message }));
  }
  return [{ path: error.path, message: describe(error) }];
}

function describe(error: ValueError): string {
  const { schema, value } = error;
  if (error.type === ValueErrorType.Union) {
    const names = (schema['anyOf'] as TSchema[]).map((variant) => JSON.stringify(variant['const'] ?? variant['type']));
    return `expected one of ${names.join(', ')}, found ${found(value)}`;
  }
  if (schema['const'] !== undefined) return `expected ${JSON.stringify(schema['const'])}, found ${found(value)}`;
  const limits = ['minimum', 'exclusiveMinimum', 'maximum']
    .filter((name) => schema[name] !== undefined)
    .map((name) => `${name} ${String(schema[name])}`);
  const limit = limits.length === 0 ? '' : ` (${limits.join(', ')})`;
  return `expected ${String(schema['type'])}${limit}, found ${found(value)}`;
}

function found(value: unknown): string {
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object') return value === null ? 'null' : 'an object';
  // JSON has no word for a number that is too large to read.
  const text = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? 'nothing');
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}
