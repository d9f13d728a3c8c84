import type { ModelCard } from '../../../shared/discovery/index.ts';
import { ServeError } from '../../../shared/errors/index.ts';
import type { RoutableModel, Worker } from '../../../shared/pipeline/index.ts';
import { MediaMemory } from '../../../shared/pipeline/prompt/media-memory.ts';
import { type Preprocessed, preprocess, withTokens } from '../../../shared/pipeline/prompt/preprocess.ts';
import type { PromptTools } from '../../../shared/pipeline/prompt/prompt-tokens.ts';
import type {
  Call,
  CallSink,
  PlaneRequest,
  PlaneServer,
  RequestPlane,
  Transport,
} from '../../../shared/planes/index.ts';
import type { GenerationRequest, GenerationSink, Usage } from '../../../shared/protocol/index.ts';
import type { RequestMeter } from '../../../shared/telemetry/index.ts';
import { type LoadedModel, PromptEncoder, type Tokenizer } from '../../../shared/tokens/index.ts';
import { EventSink, type GenerationEvent } from '../../support/generation-events.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

/** One letter an id: 1 = a ... 26 = z; 0 is the end token. */
export const letterTokenizer: Tokenizer = {
  vocabSize: 27,
  encode: (text) => Uint32Array.from(text, (letter) => letter.charCodeAt(0) - 96),
  decode: (ids) => Array.from(ids, letterOf).join(''),
  createDetokenizer: () => ({ push: letterOf, flush: () => '' }),
  tokenBytes: (id) => new TextEncoder().encode(letterOf(id)),
  isSpecial: (id) => id === 0,
  tokenToId: (token) => token.charCodeAt(0) - 96,
  idToToken: letterOf,
};

function letterOf(id: number): string {
  return id === 0 ? '' : String.fromCharCode(96 + id);
}

export const letterModel: LoadedModel = {
  path: '/model',
  tokenizer: letterTokenizer,
  chatTemplate: undefined,
  info: {
    path: '/model',
    modelType: 'letters',
    architectures: [],
    contextLength: 100,
    eosTokenIds: [0],
    bosTokenId: undefined,
    vocabSize: 27,
    defaultSampling: {},
    files: {},
  },
};

export function worker(id: string): Worker {
  return {
    id,
    transport: { memory: id },
    endpoint: 'dynamo.backend.generate',
    scope: { namespace: 'dynamo', component: 'backend' },
    publishesKvEvents: false,
    hasLocalIndexer: false,
    dataParallelStartRank: 0,
    dataParallelSize: 1,
    deviceType: undefined,
    taints: [],
  };
}

export function model(more: Partial<RoutableModel> = {}): RoutableModel {
  return {
    name: 'letters',
    primaryName: 'letters',
    card: {
      display_name: 'letters',
      model_input: 'Tokens',
      model_type: ['Chat', 'Completions'],
      runtime_config: {},
    } as unknown as ModelCard,
    contextLength: 100,
    createdSecs: 1_700_000_000,
    readiness: { isReady: true, reason: undefined, namespaces: {} },
    mdcSum: 'sum',
    namespace: 'dynamo',
    pool: { key: 'sum', role: 'aggregated', blockSizeTokens: 16 },
    workers: [worker('a'), worker('b'), worker('c')],
    ...more,
  };
}

export function request(more: Partial<GenerationRequest> = {}): GenerationRequest {
  return {
    id: 'r1',
    model: 'letters',
    endpoint: 'completions',
    stream: true,
    prompt: { kind: 'raw', text: 'abc' },
    stop: {},
    sampling: {},
    output: {},
    routing: {},
    annotations: [],
    extraFields: [],
    metadata: {},
    trace: {},
    ...more,
  };
}

/** Encodes in this thread; nothing is observed. */
export function promptTools(clock = new VirtualClock()): PromptTools {
  const ignore = () => {};
  const observer = { template: ignore, tokenize: ignore, tokenizerCache: ignore };
  return { encoder: new PromptEncoder({ clock }), media: new MediaMemory(), clock, observer };
}

/** `preprocess` in this thread. */
export function preprocessed(
  asked: GenerationRequest,
  served: RoutableModel,
  loaded: LoadedModel,
  deployment: Pick<PromptTools, 'maxTokensDefault'> = {},
): Promise<Preprocessed> {
  return preprocess(asked, served, loaded, { ...promptTools(), ...deployment });
}

/** The same of a raw prompt, at once. */
export function preprocessNow(asked: GenerationRequest, served: RoutableModel, loaded: LoadedModel): Preprocessed {
  const text = asked.prompt.kind === 'raw' ? asked.prompt.text : '';
  const tokenIds = Uint32Array.from(loaded.tokenizer.encode(text));
  return withTokens(asked, served, loaded, { tokenIds, isWhole: true, formattedPrompt: text, promptEmbeds: undefined });
}

export const idleMeter: RequestMeter = {
  promptTokens: () => {},
  promptEstimate: () => {},
  cachedTokens: () => {},
  servedBy: () => {},
  moved: () => {},
  usage: { promptTokens: 0, completionTokens: 0 },
  workerId: undefined,
  moves: 0,
  outputTokens: () => {},
  piece: () => {},
  piecesHold: () => {},
  ttftMs: undefined,
  end: () => {},
};

/** Everything a client would be shown. */
export class RecordingSink extends EventSink implements GenerationSink {
  shown = '';
  readonly events: GenerationEvent[] = [];
  readonly pieces: string[] = [];
  ended: { readonly usage: Usage; readonly finished: boolean } | undefined;
  failure: ServeError | undefined;
  blocked = false;
  #waiting: (() => void)[] = [];

  text(_choice: number, text: string): void {
    this.#open();
    this.pieces.push(text);
    this.shown += text;
  }

  event(event: GenerationEvent): void {
    this.#open();
    this.events.push(event);
    if (event.kind === 'delta' || event.kind === 'finish') this.shown += event.text;
  }

  end(usage: Usage, finished: boolean): void {
    this.#open();
    this.ended = { usage, finished };
  }

  fail(error: ServeError): void {
    this.#open();
    this.failure = error;
  }

  isBlocked(): boolean {
    return this.blocked;
  }

  onUnblocked(callback: () => void): void {
    this.#waiting.push(callback);
  }

  unblock(): void {
    this.blocked = false;
    for (const callback of this.#waiting.splice(0)) callback();
  }

  get finished() {
    return this.events.find((event) => event.kind === 'finish');
  }

  #open(): void {
    if (this.ended !== undefined || this.failure !== undefined) throw new Error('the sink is closed');
  }
}

/** One call as the worker's side would see it. */
export interface SeenCall {
  readonly transport: Transport;
  readonly request: PlaneRequest;
  readonly sink: CallSink;
  readonly log: string[];
}

/** A request plane whose other side is the test. */
export class HandPlane implements RequestPlane {
  readonly name = 'memory';
  readonly calls: SeenCall[] = [];
  #waiting: (() => void) | undefined;

  serve(): Promise<PlaneServer> {
    throw new ServeError('not_implemented', 'callers only');
  }

  call(transport: Transport, request: PlaneRequest, sink: CallSink): Call {
    const log: string[] = [];
    this.calls.push({ transport, request, sink, log });
    this.#waiting?.();
    const noted = (what: string) => () => void log.push(what);
    const kill = (why?: 'moved'): void => void log.push(why === undefined ? 'kill' : `kill: ${why}`);
    return { stop: noted('stop'), kill, pause: noted('pause'), resume: noted('resume') };
  }

  /** The `count`-th call, once it was made. */
  async seen(count: number): Promise<SeenCall> {
    while (this.calls.length < count) {
      await new Promise<void>((resolve) => {
        this.#waiting = resolve;
      });
    }
    return this.calls[count - 1] as SeenCall;
  }

  sibling(): undefined {
    return undefined;
  }

  async close(): Promise<void> {}
}
