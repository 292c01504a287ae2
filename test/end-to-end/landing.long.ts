import { after, before } from 'node:test';
import { startPostgres, type PostgresServer } from '../support/postgres.ts';
import { postgresStore } from '../support/warehouse-store.ts';
import { describeLanding } from './landing.ts';

let postgres: PostgresServer;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres.stop());

describeLanding('PostgreSQL', 1, () => postgresStore(postgres));
