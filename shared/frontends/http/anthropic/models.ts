import type { ServeError } from '../../../errors/index.ts';
import type { ServedModel } from '../../../pipeline/index.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import { sendError } from '../sinks/send.ts';
import { newRequestId, sendMessagesError } from './errors.ts';

/** The client speaks Anthropic's dialect and may. */
export function wantsAnthropicModels({ settings }: HttpAppDeps, exchange: HttpExchange): boolean {
  return settings.anthropic.isEnabled && exchange.header('anthropic-version') !== undefined;
}

/** Sends a failure of the routes of models in the dialect of the client. */
export function sendModelsError(
  deps: HttpAppDeps,
  exchange: HttpExchange,
  error: ServeError,
  headers?: Readonly<Record<string, string>>,
): void {
  if (wantsAnthropicModels(deps, exchange)) sendMessagesError(exchange, error, newRequestId(deps.random), headers);
  else sendError(exchange, error, deps.settings.overloadStatus, headers);
}

/** A model in Anthropic's shape. */
export function anthropicModel(model: ServedModel, { settings }: HttpAppDeps): object {
  const context = settings.contextWindow ?? model.contextLength;
  return {
    id: model.name,
    display_name: model.name,
    type: 'model',
    created_at: `${new Date(model.createdSecs * 1000).toISOString().slice(0, 19)}Z`,
    ...(context === 0 ? {} : { max_input_tokens: context }),
    ...(settings.maxOutputTokens === undefined ? {} : { max_tokens: settings.maxOutputTokens }),
  };
}

/** Every model on one page. */
export function anthropicModelList(models: readonly ServedModel[], deps: HttpAppDeps): object {
  return {
    data: models.map((model) => anthropicModel(model, deps)),
    has_more: false,
    first_id: models[0]?.name ?? null,
    last_id: models.at(-1)?.name ?? null,
  };
}
