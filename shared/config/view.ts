import type { Process } from './processes.ts';
import type { Given } from './sources.ts';
import { type SettingName, TABLE, type ValuesBySetting } from './table.ts';

/** Values while they are put together: what the process does not read is absent. */
export type SettingValues = { -readonly [K in SettingName]?: ValuesBySetting[K] | undefined };

/** What cross checks look at. */
export interface ConfigView {
  readonly process: Process;
  readonly given: ReadonlyMap<SettingName, Given>;
  readonly values: SettingValues;
}

/** How a user names a setting: its flag, else its variable, else its key. */
export function nameOf(setting: SettingName): string {
  const row = TABLE.get(setting);
  return row?.flags[0] ?? row?.env[0] ?? `key ${row?.keys[0] ?? setting}`;
}
