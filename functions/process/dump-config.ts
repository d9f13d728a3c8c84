import { writeFile } from 'node:fs/promises';
import { type Process, type ResolvedConfig, renderSettingsJson } from '../../shared/config/index.ts';
import { reasonOf } from '../../shared/errors/index.ts';

/**
 * Writes the effective settings where `--dump-config-to` says, for commands that have that flag.
 * @throws Error with one line that names the flag
 */
export async function dumpConfig<P extends Process>(config: ResolvedConfig<P>): Promise<void> {
  const settings: object = config.settings;
  const path = 'dumpConfigTo' in settings ? settings.dumpConfigTo : undefined;
  if (typeof path !== 'string') return;
  try {
    await writeFile(path, renderSettingsJson(config));
  } catch (thrown) {
    throw new Error(`cannot write --dump-config-to ${path}: ${reasonOf(thrown)}; name a file in a writable folder`);
  }
}
