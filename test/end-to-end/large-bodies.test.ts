// The short form of large-bodies.long.ts.
import { sqliteStore } from '../support/warehouse-store.ts';
import { BACKLOGS, describeBacklogs } from './large-bodies.ts';

describeBacklogs('SQLite', async () => sqliteStore(), [BACKLOGS.amongSmall]);
