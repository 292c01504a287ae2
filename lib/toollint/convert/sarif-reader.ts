// Reads members of a SARIF log. `null` is the same as an absent member, because many tools write it. A member of
// another type than SARIF's schema allows is refused with its place as a JSON Pointer.
import { isObject } from '../document/strict-json.ts';

export type Refuse = (fault: string) => never;

export class SarifObject {
  readonly #members: Readonly<Record<string, unknown>>;
  readonly #parent: SarifObject | undefined;
  readonly #key: string;
  readonly #refuse: Refuse;

  constructor(value: unknown, refuse: Refuse, parent?: SarifObject, key = '') {
    this.#refuse = refuse;
    this.#parent = parent;
    this.#key = key;
    this.#members = isObject(value) ? value : this.#expected('an object', value);
  }

  /** The JSON Pointer of this object. */
  get place(): string {
    return this.#parent === undefined ? '' : `${this.#parent.place}/${this.#key}`;
  }

  refuse(name: string, fault: string): never {
    return this.#refuse(`${this.place}/${name}: ${fault}`);
  }

  object(name: string): SarifObject | undefined {
    const value = this.#members[name] ?? undefined;
    return value === undefined ? undefined : new SarifObject(value, this.#refuse, this, name);
  }

  needed(name: string): SarifObject {
    return this.object(name) ?? this.refuse(name, 'the member is missing');
  }

  objects(name: string): SarifObject[] {
    return this.#list(name).map((value, index) => new SarifObject(value, this.#refuse, this, `${name}/${index}`));
  }

  texts(name: string): string[] {
    return this.#list(name).map((value, index) =>
      typeof value === 'string' ? value : this.refuse(`${name}/${index}`, expected('a string', value)),
    );
  }

  text(name: string): string | undefined {
    const value = this.#members[name] ?? undefined;
    if (value === undefined || typeof value === 'string') return value;
    return this.refuse(name, expected('a string', value));
  }

  number(name: string): number | undefined {
    const value = this.#members[name] ?? undefined;
    if (value === undefined || typeof value === 'number') return value;
    return this.refuse(name, expected('a number', value));
  }

  /** A member that the schema does not describe, or a boolean. */
  any(name: string): unknown {
    return this.#members[name] ?? undefined;
  }

  names(): string[] {
    return Object.keys(this.#members);
  }

  #list(name: string): readonly unknown[] {
    const value = this.#members[name] ?? [];
    return Array.isArray(value) ? value : this.refuse(name, expected('an array', value));
  }

  #expected(type: string, value: unknown): never {
    const place = this.place === '' ? '' : `${this.place}: `;
    return this.#refuse(`${place}${expected(type, value)}`);
  }
}

function expected(type: string, value: unknown): string {
  const found = Array.isArray(value) ? 'an array' : value === null ? 'null' : `a value of type ${typeof value}`;
  return `expected ${type}, found ${found}`;
}
