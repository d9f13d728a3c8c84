import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Environment, homeFolder, type Settings } from '../../config/index.ts';

/** Settings of the hub (`HF_*`). */
export type HubSettings = Pick<
  Settings<'worker'>,
  'hfEndpoint' | 'hfToken' | 'hfTokenPath' | 'hfHome' | 'hfHubCache' | 'hfHubOffline'
>;

/** A hub of models, and the cache of its files on this machine. */
export interface HubPlace {
  /** URL without a slash at its end. */
  readonly endpoint: string;
  /** Folder of the cache, which Hugging Face's own tools share. */
  readonly cache: string;
  /** Whether nothing may be downloaded. */
  readonly isOffline: boolean;
  /** Returns the token of the user; undefined without one. */
  token(): Promise<string | undefined>;
}

/** Returns the place that the settings name, with the defaults of Hugging Face's own tools. */
export function hubPlace(settings: HubSettings, env: Environment = process.env): HubPlace {
  const { hfEndpoint, hfToken, hfHubOffline: isOffline } = settings;
  const home = settings.hfHome ?? join(env.XDG_CACHE_HOME || join(homeFolder(), '.cache'), 'huggingface');
  const tokenPath = settings.hfTokenPath ?? join(home, 'token');
  return {
    endpoint: hfEndpoint.replace(/\/+$/, ''),
    cache: settings.hfHubCache ?? join(home, 'hub'),
    isOffline,
    token: async () => {
      // Most users have no such file; a file that cannot be read shows when the hub refuses.
      const text = hfToken ?? (await readFile(tokenPath, 'utf8').catch(() => ''));
      return text.trim() || undefined;
    },
  };
}
