// The short form of secured-queues.long.ts.
import { before, describe, it } from 'node:test';
import { TestSentinels } from '../support/redis-sentinel.ts';
import { assertLands, pki } from './secured-queues.ts';

describe('a queue behind sentinels over TLS, all of which ask for the password of the URI', () => {
  let sentinels: TestSentinels;
  before(async () => {
    sentinels = await TestSentinels.start({ replicas: 1, pki, password: 'secret' });
  });

  it('takes events, acknowledged by a replica, and lands them', () =>
    assertLands({ gateway: sentinels.uri, consumer: sentinels.uri }));
});
