import type { TensorModelConfig } from '../../shared/discovery/index.ts';
import {
  createHandlerEngine,
  type Engine,
  type EngineInfo,
  type EngineLoad,
  type HandlerContext,
  KvEventReports,
  type ModelFacts,
  type RequestHandler,
} from '../../shared/engines/index.ts';
import {
  DATA_TYPES,
  type EngineInput,
  type EngineRequest,
  MODEL_TYPES,
  type ModelKind,
  recordTypeOf,
} from '../../shared/protocol/index.ts';
import { readModelInfo } from '../../shared/tokens/index.ts';
import type { CardSettings } from '../../shared/worker/index.ts';

/**
 * Facts about the engine behind a worker, for frontends and their routers. All are optional.
 *
 * @example
 * const runtime: RuntimeFacts = { contextLength: 8192, maxNumSeqs: 64, publishesKvEvents: true };
 */
export interface RuntimeFacts {
  /**
   * Longest prompt and output together, in tokens, at most the number of the model folder.
   * @default from the model folder, else unlimited
   */
  readonly contextLength?: number;
  /** @default 16 */
  readonly kvBlockSizeTokens?: number;
  /** KV blocks of one data-parallel rank, for busy thresholds. @default unknown */
  readonly totalKvBlocks?: number;
  /** Sequences that run at a time. @default unknown */
  readonly maxNumSeqs?: number;
  /** Tokens of one engine pass. @default unknown */
  readonly maxNumBatchedTokens?: number;
  /** @default 1 */
  readonly dataParallelSize?: number;
  /**
   * Device of the model, for `--router-mode device-aware-weighted`; `--device-type` overrides it.
   * @default unknown, which counts as `cuda`
   */
  readonly deviceType?: 'cpu' | 'cuda';
  /** Whether the model reports the blocks of its cache to `worker.kvCache`; for `tokens`. @default false */
  readonly publishesKvEvents?: boolean;
  /** Whether prompts may come as embeddings (`input.promptEmbeds`). @default false */
  readonly takesPromptEmbeds?: boolean;
}

/**
 * Form of the requests to a model.
 *
 * @example
 * const input: InputKind = 'tokens';
 */
export type InputKind = EngineInput['kind'];

/**
 * A chat as its client wrote it, with further fields of the client.
 *
 * @example
 * function lastText({ messages }: ChatBody): string {
 *   const content = messages.at(-1)?.content ?? '';
 *   return typeof content === 'string' ? content : content.map((part) => part.text ?? '').join(' ');
 * }
 */
export interface ChatBody {
  readonly messages: readonly ChatMessage[];
  readonly [field: string]: unknown;
}

/**
 * A message of a chat.
 *
 * @example
 * const message: ChatMessage = { role: 'user', content: [{ type: 'text', text: 'Pretty Polly' }] };
 */
export interface ChatMessage {
  readonly role: string;
  /** A text, or a list of parts. */
  readonly content?: string | readonly { readonly type: string; readonly text?: string }[] | null;
}

/**
 * A request of a model with one input and these kinds.
 *
 * @example
 * function promptLength({ input }: RequestOf<'tokens', 'chat'>): number {
 *   return input.tokenIds.length;
 * }
 */
export type RequestOf<Input extends InputKind, Kind extends ModelKind> = Omit<EngineRequest, 'input'> & {
  readonly input: InputOf<Input, Kind>;
};

type InputOf<Input extends InputKind, Kind extends ModelKind> = Input extends 'text'
  ? Omit<Extract<EngineInput, { kind: 'text' }>, 'body'> & { readonly body: TextBody<Kind> }
  : Extract<EngineInput, { kind: Input }>;

/** Body of a text request. Only a model whose only kind is `chat` is sure to get messages. */
type TextBody<Kind extends ModelKind> = [Kind] extends ['chat'] ? ChatBody : Readonly<Record<string, unknown>>;

/**
 * A model that is written in code.
 *
 * @example
 * const parrot: WorkerDefinition<'text', 'chat'> = {
 *   model: 'parrot',
 *   input: 'text',
 *   kinds: ['chat'],
 *   async *generate({ input }) {
 *     yield `You sent ${input.body.messages.length} messages.`;
 *   },
 * };
 */
export interface WorkerDefinition<Input extends InputKind = InputKind, Kind extends ModelKind = ModelKind> {
  /** Name that clients use. */
  readonly model: string;
  readonly aliases?: readonly string[];
  /**
   * Form of a request: `tokens` (the frontend renders the template and tokenizes; needs `modelPath`), `text` (the
   * client's own body), or `tensor` (a KServe request).
   */
  readonly input: Input;
  /** Routes on which the model is offered, at least one. */
  readonly kinds: readonly Kind[];
  /**
   * Folder with tokenizer, configuration and chat template, or the id of a model on the Hugging Face Hub
   * (`ORG/NAME[@REVISION]`), from where they are downloaded; for `tokens`.
   */
  readonly modelPath?: string;
  readonly runtime?: RuntimeFacts;
  /** Parsers of the model's text and other settings of its card. */
  readonly card?: CardSettings;
  /** Answers one request. */
  generate(request: RequestOf<Input, Kind>, context: HandlerContext): ReturnType<RequestHandler>;
  /** Loads the model. The worker registers once it has resolved. */
  readonly start?: (signal: AbortSignal) => Promise<void>;
  /** Rejects if the model cannot serve now; the worker then leaves discovery until it can. Called every two seconds. */
  readonly health?: (signal: AbortSignal) => Promise<void>;
  readonly load?: () => readonly EngineLoad[];
  readonly stop?: () => Promise<void>;
}

const BLOCK_SIZE_TOKENS = 16;

const MODEL_INPUTS = { tokens: 'Tokens', text: 'Text', tensor: 'Tensor' } as const;

/**
 * Checks a definition before its worker starts.
 * @throws TypeError that names the field, its value, and what is allowed
 */
export function checkDefinition({ model, input, kinds, modelPath, runtime, card, generate }: WorkerDefinition): void {
  if (typeof model !== 'string' || model === '') throw new TypeError(`model ${show(model)}: expected a name`);
  if (!(input in MODEL_INPUTS)) throw wrong('input', input, Object.keys(MODEL_INPUTS));
  if (!Array.isArray(kinds) || kinds.length === 0) throw wrong('kinds', kinds, Object.keys(MODEL_TYPES));
  for (const kind of kinds) if (!(kind in MODEL_TYPES)) throw wrong('kinds', kind, Object.keys(MODEL_TYPES));
  if (input === 'tokens' && modelPath === undefined) {
    throw new TypeError('modelPath is missing: input "tokens" needs the folder of the tokenizer and the chat template');
  }
  if ((input === 'tensor') !== kinds.every((kind) => kind === 'tensor')) {
    throw new TypeError(`kinds ${show(kinds)}: input "tensor" and kind "tensor" belong together`);
  }
  if (runtime?.publishesKvEvents === true && input !== 'tokens') {
    throw new TypeError(
      `runtime.publishesKvEvents true: only a model with input "tokens" has blocks that routers know`,
    );
  }
  if (card?.tensorModelConfig !== undefined) checkTensorModelConfig(card.tensorModelConfig);
  if (typeof generate !== 'function') throw new TypeError(`generate ${show(generate)}: expected an async generator`);
}

/** Creates the receiver of a model's cache reports; undefined if its definition has no `publishesKvEvents`. */
export function kvCacheOf({ runtime = {} }: WorkerDefinition): KvEventReports | undefined {
  if (runtime.publishesKvEvents !== true) return undefined;
  const { kvBlockSizeTokens: blockSizeTokens = BLOCK_SIZE_TOKENS, dataParallelSize = 1 } = runtime;
  return new KvEventReports({ blockSizeTokens, dataParallelSize });
}

/**
 * Creates the engine and the model of a definition. Rejects if the model folder or Triton's description cannot be read.
 *
 * @param openFolder returns the folder of a model; undefined if there is none
 */
export async function engineOf(
  definition: WorkerDefinition,
  kvCache: KvEventReports | undefined,
  openFolder: (name: string) => Promise<string | undefined>,
): Promise<{ readonly engine: Engine; readonly model: ModelFacts }> {
  const { modelPath, card, start, health, load, stop } = definition;
  if (card?.tensorModelConfig !== undefined) await checkTritonConfig(card.tensorModelConfig);
  const path = modelPath === undefined ? undefined : ((await openFolder(modelPath)) ?? modelPath);
  const folder = path === undefined ? undefined : await readModelInfo(path);
  const engine = createHandlerEngine({
    info: infoOf(definition, folder?.contextLength),
    handler: (request, context) => definition.generate(request, context),
    ...{ start, health, load, stop },
    onKvEvents: (listener) => kvCache?.listen(listener),
  });
  const { files, contextLength, bosTokenId, defaultSampling } = folder ?? {};
  const samplingDefaults = definition.input === 'tokens' ? defaultSampling : undefined;
  const model = files === undefined ? {} : { files, contextLength, bosTokenId, samplingDefaults };
  return { engine, model: { ...model, sourcePath: modelPath ?? definition.model } };
}

function infoOf({ input, kinds, runtime = {} }: WorkerDefinition, folderContext: number | undefined): EngineInfo {
  return {
    contextLength: runtime.contextLength ?? folderContext,
    kvBlockSizeTokens: runtime.kvBlockSizeTokens ?? BLOCK_SIZE_TOKENS,
    totalKvBlocks: runtime.totalKvBlocks ?? 0,
    maxNumSeqs: runtime.maxNumSeqs,
    maxNumBatchedTokens: runtime.maxNumBatchedTokens,
    dataParallelSize: runtime.dataParallelSize ?? 1,
    modelInput: MODEL_INPUTS[input],
    modelType: kinds.map((kind) => MODEL_TYPES[kind]),
    publishesKvEvents: runtime.publishesKvEvents ?? false,
    holdsBlocksOnce: true,
    takesPromptEmbeds: runtime.takesPromptEmbeds ?? false,
    ...(runtime.deviceType === undefined ? {} : { deviceType: runtime.deviceType }),
  };
}

function wrong(field: string, value: unknown, allowed: readonly string[]): TypeError {
  return new TypeError(`${field} ${show(value)}: expected ${allowed.join(', ')}`);
}

function show(value: unknown): string {
  return JSON.stringify(value) ?? String(value);
}

/**
 * Checks the description of a tensor model before frontends read it.
 * @throws TypeError that names the field, its value, and what is allowed
 */
function checkTensorModelConfig({ name, inputs, outputs }: TensorModelConfig): void {
  const at = 'card.tensorModelConfig';
  if (typeof name !== 'string') throw wrongField(`${at}.name`, name, 'a name');
  for (const [field, tensors] of Object.entries({ inputs, outputs })) {
    if (!Array.isArray(tensors)) throw wrongField(`${at}.${field}`, tensors, 'a list of { name, data_type, shape }');
    for (const [index, tensor] of tensors.entries()) checkTensor(`${at}.${field}[${index}]`, tensor);
  }
}

function checkTensor(at: string, tensor: TensorModelConfig['inputs'][number]): void {
  const { name, data_type: dataType, shape } = tensor;
  if (typeof name !== 'string' || name === '') throw wrongField(`${at}.name`, name, 'a name');
  if (recordTypeOf(dataType) === undefined) {
    throw wrongField(`${at}.data_type`, dataType, DATA_TYPES.map(({ record }) => record).join(', '));
  }
  if (!Array.isArray(shape) || !shape.every((size) => Number.isInteger(size) && size >= -1)) {
    throw wrongField(`${at}.shape`, shape, 'a list of whole numbers, -1 for any length');
  }
}

/**
 * Checks that the bytes are an `inference.ModelConfig`. Loads the code that reads them only for that. @throws TypeError
 */
async function checkTritonConfig({ triton_model_config: bytes }: TensorModelConfig): Promise<void> {
  if (bytes === undefined) return;
  const { decodeMessage, ModelConfigSchema } = await import('../../shared/grpc/index.ts');
  try {
    decodeMessage(ModelConfigSchema, Uint8Array.from(bytes));
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new TypeError(`card.tensorModelConfig.triton_model_config: ${reason}`, { cause });
  }
}

function wrongField(field: string, value: unknown, allowed: string): TypeError {
  return new TypeError(`${field} ${JSON.stringify(value) ?? String(value)}: expected ${allowed}`);
}
