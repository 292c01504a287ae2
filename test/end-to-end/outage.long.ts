import { after, before, describe } from 'node:test';
import { startPrivatePostgres, type PrivatePostgres } from '../support/postgres.ts';
import { postgresStore } from '../support/warehouse-store.ts';
import { describeWarehouseOutage } from './outage.ts';

describe('PostgreSQL that can be stopped', () => {
  let postgres: PrivatePostgres;
  before(async () => {
    postgres = await startPrivatePostgres({ durable: true });
  });
  after(() => postgres.stop());
  describeWarehouseOutage(
    'PostgreSQL',
    () => postgresStore(postgres),
    () => postgres.kill(),
    () => postgres.start(),
  );
});
