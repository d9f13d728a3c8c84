import { namespacesOf, type Settings } from '../settings/index.ts';
import { plannedFleetsOf } from './planner/planned-fleets.ts';

/** Environment of every process of a deployment. */
export const EVERY_PROCESS = { DYN_REQUEST_PLANE: 'tcp', DYN_LOG: 'info', DYN_LOGGING_JSONL: 'true' } as const;

/** Returns the environment of a process that serves clients, in a function or a container. */
export function frontendEnvironment(settings: Settings) {
  const { keys } = settings;
  return {
    STATOR_KEY_CACHE_SECS: String(keys.cacheSecs),
    STATOR_METRICS_AUTH: String(keys.metrics),
    STATOR_DOCS_AUTH: String(keys.docs),
    DYN_ENABLE_ANTHROPIC_API: 'true', // one base URL for the clients of both
    ...namespacesOf(settings),
    ...plannedModels(settings),
  };
}

/** Lets requests wait for models whose first worker has not been started yet. */
function plannedModels(settings: Settings): { readonly STATOR_PLANNED_MODELS?: string } {
  const planned = plannedFleetsOf(settings).specs.fleets.map(({ namespace, model }) => `${namespace}#${model}`);
  return planned.length === 0 ? {} : { STATOR_PLANNED_MODELS: planned.join(',') };
}
