import { type Command, renderBriefHelp, renderHelp } from '../../shared/config/index.ts';
import { COMMANDS } from './commands.ts';

/** Every command that a user can run with what it does, in the order of help. */
export const RUNNABLE: readonly (readonly [name: string, about: string])[] = [
  ...Object.entries(COMMANDS).map(([name, { about }]) => [name, about] as const),
  ['config', 'Every setting, its effective value and where it came from'],
  ['version', 'The version'],
];

/** The text of `stator --help`: the commands, and how everybody starts. */
export function renderOverview(): string {
  const commands = RUNNABLE.map(([name, about]) => `  ${name.padEnd(10)} ${about}`);
  return `Usage: stator COMMAND [flags]

Commands
${commands.join('\n')}

${renderBriefHelp('local').replace('\nFlags\n', '\nFlags of stator local\n')}
  stator COMMAND --help        the flags of a command that matter most, with examples
  stator COMMAND --help all    every flag and variable of a command
  stator --help all            those of all commands
`;
}

/** The text of `stator COMMAND --help`, or of `--help all`. */
export function renderCommand(name: Command, extent: 'brief' | 'all'): string {
  const head = `Usage: stator ${name} [flags]\n\n${COMMANDS[name].about}.\n\n`;
  if (extent === 'all') return `${head}  -h, --help, --version\n\n${renderHelp(name)}`;
  return `${head}${renderBriefHelp(name)}
  stator ${name} --help all    every flag and variable
  stator config ${name}        every setting with its value
`;
}

/** The text of `stator --help all`: every command with every flag and variable. */
export function renderEverything(): string {
  const names = Object.keys(COMMANDS) as Command[]; // keys of COMMANDS
  return names.map((name) => renderCommand(name, 'all')).join('\n');
}
