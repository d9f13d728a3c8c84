import { type Command, TABLE } from '../shared/config/index.ts';

/**
 * Flags that npm took for its own, which `npm start --router-mode kv` gives it: without ` -- ` in front it hands on their values
 * at best, and puts the flags into variables.
 * @param command what is run
 * @returns what to type in place of it; undefined where npm has kept nothing
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
  const words = kept.length === 1 && only !== undefined ? [only, ...values] : kept; // of several, nobody knows whose they are
  return `${run} -- ${words.join(' ')}`;
}

/** Names that npm knows itself: their variables say nothing of us. */
const NPM_OWN: ReadonlySet<string> = new Set(['--json', '--version', '--help']);
