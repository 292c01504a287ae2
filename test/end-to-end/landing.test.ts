import { sqliteStore } from '../support/warehouse-store.ts';
import { describeLanding } from './landing.ts';

describeLanding('SQLite', 0, async () => sqliteStore());
