// A client that sends many requests at once and reads nothing for a while.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { event, PATIENT, TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';

const REQUESTS = 3_000;

describe('a client that pipelines without reading its answers', () => {
  it('is never told that a good event is malformed: answers come in order, and where it is cut off it may retry', async () => {
    const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
    const gateway = await TestGateway.start(redis, pki, PATIENT);
    const connection = await gateway.socket(await pki.producer('one'));
    connection.socket.pause();
    for (let at = 0; at < REQUESTS; at += 1) {
      const body = event(`pipelined-${at}`);
      connection.write(
        `POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
    }
    await eventually('some are on the stream', async () => (await redis.length()) > 0);
    connection.socket.resume();
    const answers = (): string[] => connection.received.split('HTTP/1.1 ').slice(1);
    await eventually(
      'all are answered, or the connection ended',
      () => answers().length === REQUESTS || connection.ended || connection.closed,
    );

    const onStream = new Set((await redis.entries()).map(({ fields }) => fields['body']));
    for (const [at, answer] of answers().entries()) {
      assert.match(answer, /\r\nX-Request-Id: /);
      if (answer.startsWith('202')) {
        assert.ok(answer.endsWith(`{"id":"pipelined-${at}","status":"accepted"}`), answer);
        assert.ok(onStream.has(event(`pipelined-${at}`)));
      } else {
        assert.match(answer, /^503 .*"code":"QUEUE_OVERLOADED","retryable":true/s);
      }
    }
    assert.ok(answers().some((answer) => answer.startsWith('202')));
    assert.equal(gateway.child.exitCode, null);
  });
});
