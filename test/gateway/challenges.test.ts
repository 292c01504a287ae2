// What a client is told that is not an accepted producer.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DEFECTS } from '../../lib/gateway/answers.ts';
import { challenges, refusalOf } from '../../lib/gateway/producer-checks.ts';
import { problem } from '../../lib/ingest/errors.ts';

const untilMs = Number.POSITIVE_INFINITY;

describe('a challenge', () => {
  it('asks for a client certificate where no token is required', () => {
    const challenge = challenges('here', false);
    assert.equal(challenge(undefined), 'TLS-Client-Certificate realm="here"');
    assert.equal(challenge('Bearer x'), 'TLS-Client-Certificate realm="here"');
  });

  it('asks for a token where one is required, and says that one that came does not count', () => {
    const challenge = challenges('here', true);
    assert.equal(challenge(undefined), 'Bearer realm="here"');
    assert.equal(challenge('Bearer x'), 'Bearer realm="here", error="invalid_token"');
  });

  it('escapes what would end its realm', () => {
    assert.equal(challenges(String.raw`a"b\c`, true)(undefined), String.raw`Bearer realm="a\"b\\c"`);
  });
});

describe('the refusal of a client', () => {
  const challenge = (authorization: string | undefined): string => `challenge ${authorization}`;

  it('that is not identified says how it may be', () => {
    const refusal = refusalOf({ kind: 'unauthenticated', detail: 'who', untilMs }, challenge, 'Bearer x');
    const headers = ['WWW-Authenticate', 'challenge Bearer x'];
    assert.deepEqual(refusal, problem('unauthenticated', 'who', { headers }));
    assert.deepEqual(refusal.headers, headers);
  });

  it('that has not this audience has no challenge', () => {
    const verdict = { kind: 'audienceMissing', producer: 'shop', detail: 'not here', untilMs } as const;
    assert.deepEqual(refusalOf(verdict, challenge, undefined), problem('audienceMissing', 'not here'));
  });

  it('of which it could not be found out is an error of ours', () => {
    const refusal = refusalOf({ kind: 'unknown', detail: 'no keys', untilMs }, challenge, undefined);
    assert.deepEqual(refusal, problem('internal', 'no keys'));
  });

  it('whose request could mean another thing says which part of it', () => {
    for (const [defect, detail] of [
      ['host', 'expected exactly one well-formed Host field'],
      ['transferCoding', 'expected no Transfer-Encoding but chunked'],
      ['repeatedField', 'expected one Content-Type and one Authorization field at most'],
      ['version', 'expected HTTP/1.1 or HTTP/1.0'],
    ] as const)
      assert.deepEqual(DEFECTS[defect], problem('invalidEvent', detail));
  });
});
