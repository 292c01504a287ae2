// The short form of the campaign.
import { describeCampaign } from './campaign-test.ts';

describeCampaign(['sqlite'], 2);
