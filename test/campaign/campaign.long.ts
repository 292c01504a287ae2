// Faults at random under load: many rounds with `make campaign`, a few with `make ingest-test-long`.
import { describeCampaign } from './campaign-test.ts';
import { ROUNDS, WAREHOUSES } from './settings.ts';

const ROUNDS_BY_DEFAULT = 3;

describeCampaign(WAREHOUSES, ROUNDS ?? ROUNDS_BY_DEFAULT);
