import { ServeError } from '../../errors/index.ts';
import type { GenerationRequest } from '../../protocol/index.ts';
import type { WorkerSetRecord } from '../../scheduler/index.ts';
import type { Tokenizer } from '../../tokens/index.ts';
import type { RoutableModel } from '../models/routable-model.ts';
import { describeSet, largestSet } from '../models/worker-sets.ts';
import type { PromptTokenIds } from '../pipeline.ts';
import type { PipelineOptions } from '../pipeline-options.ts';
import { isReadByWorker } from './media-prompt.ts';
import type { PromptPreparation } from './prepare.ts';
import { promptTokens } from './preprocess.ts';
import { type PromptTools, tokenizePrompt } from './prompt-tokens.ts';

/** Finds models by their names. */
interface ModelCards {
  /** Returns a model whose card is known. @throws ServeError `model_not_found`, `service_unavailable` */
  withCard(name: string): RoutableModel;
}

/** Counts, makes and spells the tokens of models, without their workers. */
export class Vocabulary {
  readonly #options: Pick<PipelineOptions, 'models' | 'store'>;
  readonly #cards: ModelCards;
  readonly #preparation: PromptPreparation;
  readonly #tools: PromptTools;

  constructor(
    options: Pick<PipelineOptions, 'models' | 'store'>,
    cards: ModelCards,
    preparation: PromptPreparation,
    tools: PromptTools,
  ) {
    this.#options = options;
    this.#cards = cards;
    this.#preparation = preparation;
    this.#tools = tools;
  }

  /** See `Pipeline.countTokens`. */
  async count(request: GenerationRequest): Promise<number | undefined> {
    const { models, store } = this.#options;
    const known = models.known(request.model);
    const model = known && largestSet(known);
    if (model === undefined || model.isPlanned || model.card.model_input !== 'Tokens') return undefined;
    // Its worker counts them
    if (isReadByWorker(request, model)) return undefined;
    return promptTokens(this.#preparation.asModelWants(request, model), await store.get(model), this.#tools);
  }

  /** See `Pipeline.tokenize`. */
  async tokenize(request: GenerationRequest, addsSpecialTokens: boolean): Promise<PromptTokenIds> {
    const { model, tokenizer, loaded, workerSet } = await this.of(request.model);
    if (isReadByWorker(request, model)) throw workerTells(request.model);
    const limits = { model: request.model, contextLength: 0, addsSpecialTokens };
    const asked = this.#preparation.asModelWants(request, model);
    const { tokenIds } = await tokenizePrompt(asked, loaded, this.#tools, limits);
    return {
      tokenIds,
      contextLength: model.contextLength,
      spelled: (id) => tokenizer.idToToken(id),
      ...(workerSet && { workerSet }),
    };
  }

  /** Returns the tokenizer of the largest worker set of a model. Rejects with a ServeError if only workers have it. */
  async of(name: string) {
    const known = this.#cards.withCard(name);
    const model = largestSet(known);
    if (model.card.model_input !== 'Tokens') throw workerTells(name);
    const loaded = await this.#options.store.get(model);
    const { tokenizer }: { readonly tokenizer: Tokenizer } = loaded;
    const workerSet: WorkerSetRecord | undefined = describeSet(known, model);
    return { model, loaded, tokenizer, ...(workerSet && { workerSet }) };
  }

  /** See `Pipeline.textOf`. */
  async textOf(name: string, tokenIds: readonly number[]): Promise<string> {
    const model = largestSet(this.#cards.withCard(name));
    if (model.card.model_input !== 'Tokens') return '';
    const { tokenizer } = await this.#options.store.get(model);
    return tokenizer.decode(tokenIds, { skipSpecialTokens: false });
  }
}

function workerTells(name: string): ServeError {
  return new ServeError('not_implemented', `model \`${name}\` has no tokenizer here: its worker reads text`, {
    param: 'model',
  });
}
