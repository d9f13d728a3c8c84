import { ServeError } from '../../shared/errors/index.ts';
import type { Pipeline, ServedModel } from '../../shared/pipeline/index.ts';
import {
  BusyThresholds,
  type GenerateOptions,
  type ModelDirectory,
  type PromptTokenIds,
} from '../../shared/pipeline/pipeline.ts';
import type { GenerationRequest, GenerationSink } from '../../shared/protocol/index.ts';
import type { Tokenizer } from '../../shared/tokens/index.ts';

/** One request as the pipeline receives it, with its sink in the test's hands. */
export interface ScriptedCall {
  readonly request: GenerationRequest;
  readonly sink: GenerationSink;
  readonly options: GenerateOptions;
}

/** A pipeline that plays what a test says, for tests of only the HTTP surface. */
export class ScriptedPipeline implements Pipeline {
  readonly calls: ScriptedCall[] = [];
  readonly models: ModelDirectory;
  readonly requestable: ModelDirectory;
  readonly thresholds = new BusyThresholds();
  /** Result of `countTokens`. It is undefined for a model whose tokenizer is not in this process. */
  promptTokens: number | undefined;
  #play: (call: ScriptedCall) => void = () => {};
  #waiters: (() => void)[] = [];

  constructor(models: readonly ServedModel[] = [servedModel('m')]) {
    this.models = {
      list: () => models,
      find: (name) => models.find((model) => model.name === name),
      known: (name) => models.find((model) => model.name === name),
    };
    this.requestable = this.models;
  }

  /** Sets the action for every later request. It runs synchronously within `generate`. */
  onGenerate(play: (call: ScriptedCall) => void): this {
    this.#play = play;
    return this;
  }

  async countTokens(): Promise<number | undefined> {
    return this.promptTokens;
  }

  /** Makes one token for each character. */
  async tokenize({ prompt }: GenerationRequest): Promise<PromptTokenIds> {
    const text = prompt.kind === 'raw' ? prompt.text : JSON.stringify(prompt);
    const tokenIds = Uint32Array.from(text, (each) => each.charCodeAt(0));
    return { tokenIds, contextLength: 4096, spelled: (id) => String.fromCharCode(id) };
  }

  vocabularyOf(): Promise<{ readonly tokenizer: Tokenizer }> {
    return Promise.reject(new ServeError('not_implemented', 'a scripted pipeline has no tokenizer'));
  }

  /** Returns ids in angle brackets in place of their text. */
  async textOf(_model: string, tokenIds: readonly number[]): Promise<string> {
    return `<${tokenIds.join(' ')}>`;
  }

  generate(request: GenerationRequest, sink: GenerationSink, options: GenerateOptions): void {
    const call = { request, sink, options };
    this.calls.push(call);
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const wake of waiters) wake();
    this.#play(call);
  }

  /** Resolves with the call of number `index`, once it has been made. */
  async call(index: number): Promise<ScriptedCall> {
    while (this.calls.length <= index) await new Promise<void>((resolve) => this.#waiters.push(resolve));
    return this.calls[index]!; // the wait has ensured it
  }
}

/** Writes `texts`, one engine output each, then a finish and the end. */
export function playTexts(sink: GenerationSink, texts: readonly string[], promptTokens = 3): void {
  for (const text of texts) sink.text(0, text, 1);
  sink.finish({ choice: 0, text: '', tokenIds: [], reason: 'stop' });
  sink.end({ promptTokens, completionTokens: texts.length + 1 }, true);
}

/** Fails the request as the pipeline would. */
export function playFailure(sink: GenerationSink, error: ServeError): void {
  sink.fail(error);
}

export function servedModel(name: string, overrides: Partial<ServedModel> = {}): ServedModel {
  return {
    name,
    primaryName: name,
    contextLength: 4096,
    createdSecs: 1_700_000_000,
    readiness: {
      isReady: true,
      reason: undefined,
      namespaces: {
        dynamo: {
          isReady: true,
          reason: undefined,
          workerTypes: { aggregated: { workers: 1, needs: [] } },
          missingWorkerTypes: [],
        },
      },
    },
    card: {
      display_name: name,
      slug: name,
      files: {},
      kv_cache_block_size: 16,
      model_type: ['Chat', 'Completions'],
      model_input: 'Tokens',
      worker_type: 'aggregated',
      needs: [],
      aliases: [],
      runtime_config: {},
    },
    ...overrides,
  };
}
