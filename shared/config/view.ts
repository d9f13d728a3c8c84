import type { FlagUse } from './command-line/own-flags.ts';
import type { Process } from './row.ts';
import type { SettingName, ValuesBySetting } from './table.ts';

/** Where a setting was given, and the texts that say what. */
export interface Given {
  readonly kind: 'flag' | 'variable';
  /** The flag or the variable, as the user wrote it. */
  readonly name: string;
  readonly texts: readonly string[];
  /** An engine gets it as it was given and refuses what it does not take: what is said where it cannot be read here. */
  readonly passed?: FlagUse['passed'];
}

/** What is wrong with a configuration, and what is only worth a warning: one line each, as it is found. */
export interface Findings {
  readonly problems: string[];
  readonly warnings: string[];
}

/** Values while they are put together: what the process does not read is absent. */
export type SettingValues = { -readonly [K in SettingName]?: ValuesBySetting[K] | undefined };

/** What cross checks look at. */
export interface ConfigView {
  readonly process: Process;
  readonly given: ReadonlyMap<SettingName, Given>;
  readonly values: SettingValues;
}
