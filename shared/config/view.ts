import type { FlagUse } from './command-line/own-flags.ts';
import type { Process } from './row.ts';
import type { SettingName, ValuesBySetting } from './table.ts';

/** Source of a setting, and the texts given there. */
export interface Given {
  readonly kind: 'flag' | 'variable';
  /** Flag or variable, as the user wrote it. */
  readonly name: string;
  readonly texts: readonly string[];
  /**
   * Set if the engine gets the flag unchanged and itself refuses wrong values; `unread` is the warning for a value that
   * cannot be read here.
   */
  readonly passed?: FlagUse['passed'];
}

/** Findings about a configuration: what is wrong, and what is only worth a warning. One line each, as it is found. */
export interface Findings {
  readonly problems: string[];
  readonly warnings: string[];
}

/** Values while they are put together: settings that the process does not read are absent. */
export type SettingValues = { -readonly [K in SettingName]?: ValuesBySetting[K] | undefined };

/** Input of checks across settings. */
export interface ConfigView {
  readonly process: Process;
  readonly given: ReadonlyMap<SettingName, Given>;
  readonly values: SettingValues;
}
