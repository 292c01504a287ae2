// Compares responses with the API file and records which documented responses occurred.
import assert from 'node:assert/strict';
import type { IncomingHttpHeaders } from 'node:http';
import { RESPONSES, type DocumentedResponse } from './api-file.ts';
import { repliesIn } from './wire.ts';

export interface Seen {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Header fields that HTTP itself defines (RFC 9110, section 6.6.1; RFC 9112, section 9). */
const OF_HTTP = ['date', 'connection', 'keep-alive', 'content-type'];

export class Transcript {
  readonly #seen = new Set<string>();

  hold(scope: string, response: Seen): void {
    const { status, headers, body } = response;
    const shown = `${scope} ${status} ${JSON.stringify(headers)} ${body}`;
    const mediaType = headers['content-type'];
    const documented = RESPONSES.find(
      (one) => one.scope === scope && one.status === status && one.mediaType === mediaType,
    );
    assert.ok(documented !== undefined, `the API file has no such response: ${shown}`);
    for (const header of documented.headers) {
      const text = headers[header.name];
      if (text === undefined) assert.equal(header.required, false, `${header.name} is missing: ${shown}`);
      else assert.ok(header.check(header.isInteger ? Number(text) : text), `${header.name}: ${shown}`);
    }
    const known = [...OF_HTTP, ...documented.headers.map(({ name }) => name)];
    assert.deepEqual(
      Object.keys(headers).filter((name) => !known.includes(name)),
      [],
      `undocumented headers: ${shown}`,
    );

    if (scope.startsWith('HEAD ')) {
      assert.equal(body, '', shown);
      // The empty body does not identify one of the documented variants, so this response covers all of them.
      for (const name of namesOf(documented)) this.#seen.add(name);
      return;
    }
    assert.equal(headers['content-length'], String(Buffer.byteLength(body)), shown);
    const value: unknown = documented.mediaType.endsWith('json') ? JSON.parse(body) : body;
    assert.ok(documented.check(value), `${shown}: ${JSON.stringify(documented.check.errors)}`);
    const { code, status: state } = value as { readonly code?: unknown; readonly status?: unknown };
    const variant = documented.variants.find((one) => one === code || one === state);
    this.#seen.add(nameOf(documented, variant));
  }

  get missing(): string[] {
    return RESPONSES.flatMap(namesOf).filter((name) => !this.#seen.has(name));
  }
}

const namesOf = (response: DocumentedResponse): string[] =>
  response.variants.length === 0 ? [nameOf(response)] : response.variants.map((variant) => nameOf(response, variant));

const nameOf = ({ scope, status, mediaType, variants }: DocumentedResponse, variant?: string): string =>
  variants.length === 0 ? `${scope} ${status} ${mediaType}` : `${scope} ${status} ${variant}`;

/** Parses the first response in `received`, which is latin1. Returns undefined while the response is incomplete. */
export function firstResponse(received: string): Seen | undefined {
  const [first] = repliesIn(received);
  return first && { ...first, body: Buffer.from(first.body, 'latin1').toString() };
}
