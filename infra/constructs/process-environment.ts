import { namespacesOf, type Settings } from '../settings/index.ts';

/** Environment of every process of a deployment. */
export const EVERY_PROCESS = { DYN_REQUEST_PLANE: 'tcp', DYN_LOG: 'info', DYN_LOGGING_JSONL: 'true' } as const;

/** Returns the environment of a process that serves clients, in a function or a container. */
export function frontendEnvironment({ keys, ...settings }: Settings) {
  return {
    STATOR_KEY_CACHE_SECS: String(keys.cacheSecs),
    STATOR_METRICS_AUTH: String(keys.metrics),
    STATOR_DOCS_AUTH: String(keys.docs),
    DYN_ENABLE_ANTHROPIC_API: 'true', // one base URL for the clients of both
    ...namespacesOf(settings),
  };
}
