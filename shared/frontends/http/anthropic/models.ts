import type { ServedModel } from '../../../pipeline/index.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';

/** The client speaks Anthropic's dialect and may (http-api.md, section 9.4). */
export function wantsAnthropicModels({ settings }: HttpAppDeps, exchange: HttpExchange): boolean {
  return settings.anthropic.isEnabled && exchange.header('anthropic-version') !== undefined;
}

/** A model in Anthropic's shape. Nobody knows when it was made: the time is now, as in OpenAI's shape. */
export function anthropicModel(model: ServedModel, { settings, clock }: HttpAppDeps): object {
  return {
    id: model.name,
    display_name: model.name,
    type: 'model',
    created_at: `${new Date(clock.wallMs()).toISOString().slice(0, 19)}Z`,
    max_input_tokens: settings.contextWindow ?? model.contextLength,
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
