import type { Process } from './processes.ts';
import type { ResolvedConfig } from './resolve.ts';
import type { Row } from './row.ts';
import type { Given } from './sources.ts';
import { type SettingName, TABLE } from './table.ts';

/** Flags and variables for a child process. */
export interface ForwardedSettings {
  readonly argv: readonly string[];
  /** Secrets go here: a command line can be read by every user of the machine. */
  readonly env: Readonly<Record<string, string>>;
}

function flagsOf(row: Row, given: Given): readonly string[] {
  if (row.type.arity !== 'switch') return given.texts.map((text) => `${given.name}=${text}`);
  return [`${given.name}=${given.texts.at(-1)}`];
}

// One dump file and one count of processes belong to the parent; a child that read them too would write over the dump
// and multiply the workers.
const PARENT_ONLY: ReadonlySet<SettingName> = new Set(['dumpConfigTo', 'numWorkers']);

/**
 * What was given on this process's command line and `child` reads too, for starting `child` from here. Variables are
 * left out: a child inherits the environment (without the name of the dump file).
 */
export function forwardSettings(config: Pick<ResolvedConfig, 'given'>, child: Process): ForwardedSettings {
  const argv: string[] = [];
  const env: Record<string, string> = { DYN_DUMP_CONFIG_TO: '' }; // empty = unset
  for (const [setting, given] of config.given) {
    const row = TABLE.get(setting);
    if (row === undefined || PARENT_ONLY.has(setting)) continue;
    if (given.kind !== 'flag' || !row.usedBy.includes(child)) continue;
    const variable = row.env[0];
    if (row.type.isSecret && variable !== undefined) env[variable] = given.texts.at(-1) ?? '';
    else if (row.type.arity !== 'rest') argv.push(...flagsOf(row, given));
  }
  return { argv, env };
}
