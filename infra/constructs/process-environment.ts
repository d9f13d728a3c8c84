import { namespacesOf, type Settings } from '../settings/index.ts';

/** What every process of a deployment is told, whatever it does. */
export const EVERY_PROCESS = { DYN_REQUEST_PLANE: 'tcp', DYN_LOG: 'info', DYN_LOGGING_JSONL: 'true' } as const;

/** What the settings say to whoever serves clients, be it a function or a container. */
export function frontendEnvironment({ keys, ...settings }: Settings) {
  return {
    STATOR_KEY_CACHE_SECS: String(keys.cacheSecs),
    STATOR_METRICS_AUTH: String(keys.metrics),
    STATOR_DOCS_AUTH: String(keys.docs),
    DYN_ENABLE_ANTHROPIC_API: 'true', // one base URL for the clients of both
    ...namespacesOf(settings),
  };
}
