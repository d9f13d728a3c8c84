import type { EdgeSettings } from '../../config/index.ts';
import type { LiveModelDirectory, PlannedName } from '../../pipeline/index.ts';
import type { Logger } from '../../telemetry/index.ts';

/** Returns the models of `--planned-models`. One without a namespace is of that of this process. */
export function plannedModels({ plannedModels: given = [], namespace: own = 'dynamo' }: EdgeSettings): PlannedName[] {
  return given.map(({ namespace = own, model }) => ({ namespace, model }));
}

/** Warns of planned models whose workers this process would never see. */
export function warnOfPlannedElsewhere(settings: EdgeSettings, directory: LiveModelDirectory, log: Logger): void {
  for (const { namespace, model } of plannedModels(settings)) {
    if (directory.isInScope(namespace)) continue;
    log.warn('a planned model is in a namespace that is not served here, and gets 404', { model, namespace });
  }
}

/**
 * Returns the namespace for which planners are asked for workers of a model. That of its last workers counts only if it
 * is still planned, or if nothing of the model is.
 *
 * @param known namespace of its last workers
 */
export function wantedNamespace(settings: EdgeSettings, ownName: string, known: string): string {
  const namespaces = plannedModels(settings).flatMap(({ namespace, model }) => (model === ownName ? [namespace] : []));
  const [first = known] = namespaces;
  return namespaces.includes(known) ? known : first;
}
