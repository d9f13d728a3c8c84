import { type Command, TABLE } from '../shared/config/index.ts';

/**
 * Finds flags that npm took for its own, as in `npm start --router-mode kv`. Without ` -- ` in front npm passes on
 * their values at best, and puts the flags into variables.
 * @param command the command that runs
 * @returns the command line to type instead; undefined if npm has kept no flag
 */
export function keptByNpm(
  command: Command,
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): string | undefined {
  const script = env.npm_lifecycle_event;
  if (script === undefined || script === 'npx' || env.npm_command === 'exec') return undefined;
  const kept: string[] = [];
  const values = argv.filter((argument) => !argument.startsWith('-'));
  for (const { usedBy, flags } of TABLE.values()) {
    if (!usedBy.includes(command)) continue;
    for (const flag of flags) {
      const value = env[`npm_config_${flag.slice(2).replaceAll('-', '_')}`];
      if (value === undefined || NPM_OWN.has(flag) || argv.some((each) => each.split('=')[0] === flag)) continue;
      kept.push(value === 'true' || value === '' ? flag : `${flag} ${value}`);
    }
  }
  if (kept.length === 0) return undefined;
  const run = script === 'start' ? 'npm start' : `npm run ${script}`;
  const [only] = kept;
  // With several flags, the owner of each value is unknown.
  const words = kept.length === 1 && only !== undefined ? [only, ...values] : kept;
  return `${run} -- ${words.join(' ')}`;
}

/** Flags of npm itself: their variables say nothing about Stator's. */
const NPM_OWN: ReadonlySet<string> = new Set(['--json', '--version', '--help']);
