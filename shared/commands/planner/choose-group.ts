import { namesOf, type PlannerStore } from '../../planner/index.ts';
import { UsageError } from '../config.ts';

/**
 * Returns the model whose decisions the settings mean. @throws UsageError if no planner has decided for it, or if the
 * settings fit several models
 */
export async function chooseGroup(
  store: PlannerStore,
  {
    namespace,
    plannerModel: model,
  }: { readonly namespace?: string | undefined; readonly plannerModel?: string | undefined },
  signal: AbortSignal,
): Promise<string> {
  const groups = await store.groups(signal);
  const wanted = groups.filter((group) => {
    const [ofNamespace = '', ofModel = ''] = namesOf(group);
    return (namespace ?? ofNamespace) === ofNamespace && (model ?? ofModel).toLowerCase() === ofModel.toLowerCase();
  });
  const [only, ...others] = wanted;
  if (only === undefined) throw new UsageError(`no planner has decided anything here${listed(groups)}`);
  if (others.length > 0)
    throw new UsageError(`several models: choose one with --namespace and --planner-model${listed(wanted)}`);
  return only;
}

function listed(groups: readonly string[]): string {
  return groups.length === 0 ? '' : `; known: ${groups.join(', ')}`;
}
