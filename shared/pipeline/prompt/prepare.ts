import type { GenerationRequest } from '../../protocol/index.ts';
import { inSpan } from '../../telemetry/index.ts';
import type { LoadedModel } from '../../tokens/index.ts';
import type { RoutableModel } from '../models/routable-model.ts';
import type { PipelineObserver } from '../pipeline.ts';
import type { PipelineOptions } from '../pipeline-options.ts';
import { preprocess, withCardDefaults } from './preprocess.ts';
import type { PromptTools } from './prompt-tokens.ts';

/** Makes the prompts of requests as the workers of a set take them. */
export class PromptPreparation {
  readonly #options: Pick<PipelineOptions, 'store' | 'clock' | 'observer' | 'excludesUnusableTools'>;
  readonly #tools: PromptTools;

  constructor(
    options: Pick<PipelineOptions, 'store' | 'clock' | 'observer' | 'excludesUnusableTools'>,
    tools: PromptTools,
  ) {
    this.#options = options;
    this.#tools = tools;
  }

  /** Returns the request with the defaults of the model's card and of this deployment for its prompt. */
  asModelWants(request: GenerationRequest, { card }: RoutableModel): GenerationRequest {
    return withCardDefaults(request, card, this.#options.excludesUnusableTools ?? true);
  }

  /** Makes the prompt of a request for the workers of a set. Rejects with a ServeError, or with the signal's reason. */
  async run(asked: GenerationRequest, model: RoutableModel, signal: AbortSignal, observer: PipelineObserver) {
    const loaded = await this.#loadedFor(asked, model);
    signal.throwIfAborted();
    const request = this.asModelWants(asked, model);
    const { clock } = this.#options;
    const tools = observer === this.#options.observer ? this.#tools : { ...this.#tools, observer };
    const startMs = clock.nowMs();
    observer.stageEntered?.('preprocess');
    const preprocessed = await inSpan(request.trace.span, 'tokenize', () =>
      preprocess(request, model, loaded, tools, signal),
    ).finally(() => observer.stageLeft?.('preprocess'));
    observer.stage?.('preprocess', clock.nowMs() - startMs);
    signal.throwIfAborted();
    return { request, loaded, preprocessed };
  }

  /**
   * Loads the model that a request needs; undefined if only its worker reads the prompt. An engine can also answer a
   * chat whose template or tokenizer cannot be loaded here. Such a chat is routed by load.
   */
  #loadedFor({ prompt }: GenerationRequest, model: RoutableModel): Promise<LoadedModel | undefined> | undefined {
    if (model.card.model_input !== 'Tokens') return undefined;
    const loading = this.#options.store.get(model);
    if (model.passesChats !== true || prompt.kind !== 'chat') return loading;
    return loading.catch(() => undefined); // the store has reported why
  }
}
