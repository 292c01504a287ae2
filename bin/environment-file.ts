// environment-file.ts PROGRAM: prints the file of settings for /etc/ingest, with every setting as a comment.
import { settingTexts } from '../lib/process/settings-help.ts';
import { PROGRAMS } from '../lib/process/setting-kinds.ts';
import { print } from './terminal.ts';

const program = PROGRAMS.find((name) => name === process.argv[2]) ?? 'gateway';
const settings = settingTexts(program).map(
  ({ key, initially, text }) => `# ${text.replaceAll(/\n */g, '\n# ')}\n#${key}=${initially}\n`,
);
print(`# Settings of ingest-${program}: KEY=value. The comments show the defaults.\n\n${settings.join('\n')}`);
