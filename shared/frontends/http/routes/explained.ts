import { ServeError } from '../../../errors/index.ts';
import type { ExplanationRecord } from '../../../scheduler/index.ts';
import type { HttpAppDeps } from '../deps.ts';

const UUID = /([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})(-\d+)?/i;

/**
 * Resolves with the routing decision about one of the last requests; undefined if none is kept.
 * @param id of the request or its response
 * @throws ServeError `not_implemented` in router modes without explanations
 */
export async function explanationOf(deps: HttpAppDeps, id: string): Promise<ExplanationRecord | undefined> {
  const explainer = requireExplainer(deps);
  for (const requestId of requestIdsOf(id)) {
    const explanation = await explainer.explained(requestId);
    if (explanation !== undefined) return explanation;
  }
  return undefined;
}

export function requireExplainer({ explainer }: HttpAppDeps): NonNullable<HttpAppDeps['explainer']> {
  if (explainer !== undefined) return explainer;
  throw new ServeError('not_implemented', 'Decisions can be explained in router mode kv only: --router-mode kv');
}

/** Returns the request ids that an id may stand for: itself, or the one that a response id was made from. */
function requestIdsOf(id: string): readonly string[] {
  const [found, ...parts] = UUID.exec(id) ?? [];
  if (found === undefined) return [id];
  const uuid = parts.slice(0, 5).join('-').toLowerCase();
  return [...new Set([id, `${uuid}${parts[5] ?? ''}`, uuid, `${uuid}-0`])];
}
