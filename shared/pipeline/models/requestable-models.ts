import type { ModelDirectory } from '../pipeline.ts';
import type { LiveModelDirectory } from './model-directory.ts';
import type { RoutableModel } from './routable-model.ts';

/**
 * Returns the models that requests may name: every known model. If requests wait for workers (`isHeld`), each counts as
 * ready.
 */
export function requestableModels(models: LiveModelDirectory, isHeld: boolean): ModelDirectory {
  const asFound = (model: RoutableModel): RoutableModel =>
    model.readiness.isReady || !isHeld
      ? model
      : { ...model, readiness: { ...model.readiness, isReady: true, reason: undefined } };
  const find = (name: string): RoutableModel | undefined => {
    const model = models.known(name);
    return model && asFound(model);
  };
  return { list: () => models.listKnown().map(asFound), find, known: find, refused: () => models.refused() };
}
