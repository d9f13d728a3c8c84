import type { Clock, Random, Timer } from '../../clock/index.ts';
import { type ServeError, toServeError, workerError } from '../../errors/index.ts';
import type { ChatMessage, GenerationRequest, GenerationSink, Usage } from '../../protocol/index.ts';
import { withChoose } from '../../router/index.ts';
import type { RequestMeter } from '../../telemetry/index.ts';
import type { LoadedModel } from '../../tokens/index.ts';
import { ResponseAssembler } from '../answer/response-assembler.ts';
import type { RoutableModel } from '../models/routable-model.ts';
import type { PipelineObserver, SpeculationOutcome } from '../pipeline.ts';
import { type Preprocessed, preprocess } from '../prompt/preprocess.ts';
import { mediaParts, type PromptTools } from '../prompt/prompt-tokens.ts';
import { type Heard, OverheardSink } from './overheard-sink.ts';
import { PrefillStage, type PrefillStageOptions } from './prefill-stage.ts';
import { RequestRun } from './run.ts';
import type { RunDeps } from './worker-search.ts';

/** Longest time from the end of an answer until the prompt of the next turn is computed. */
const LASTS_MS_MAX = 30_000;

export interface NextTurnsOptions {
  /** Dependencies of the runs of clients' requests. */
  readonly run: RunDeps;
  readonly prefill: PrefillStageOptions;
  readonly tools: PromptTools;
  readonly clock: Clock;
  readonly random: Random;
  readonly observer: PipelineObserver;
  /** Prompts computed ahead at the same time. Further ones are dropped. */
  readonly max: number;
}

/** A turn whose answer has ended. */
interface Turn {
  readonly request: GenerationRequest;
  readonly model: RoutableModel;
  readonly loaded: LoadedModel;
  /** Tokens of its prompt. */
  readonly promptTokens: number;
  readonly messages: readonly ChatMessage[];
  readonly heard: Heard;
}

type Reason = Extract<SpeculationOutcome, 'superseded' | 'dropped'>;

/** One prompt computed ahead. */
interface Ahead {
  readonly turn: Turn;
  stop(why: Reason): void;
}

/**
 * Computes the known part of a conversation's next prompt while its user still reads the answer
 * (`agent_hints.speculative_prefill`). It generates one token of the next turn and discards it, so that a worker has
 * the blocks. Requests of clients come first: a prompt computed ahead never queues, never moves to another worker, and
 * stops when the turn itself arrives.
 */
export class NextTurns {
  readonly #options: NextTurnsOptions;
  readonly #run: RunDeps;
  readonly #underWay = new Set<Ahead>();
  #isClosed = false;

  constructor(options: NextTurnsOptions) {
    this.#options = options;
    const { run, prefill } = options;
    const router = withChoose(run.router, (request, signal) =>
      run.router.choose({ ...request, onQueued: () => BUSY }, signal),
    );
    const observer = quiet(options.observer);
    this.#run = {
      ...run,
      router,
      observer,
      hold: undefined,
      migrationLimit: 0,
      prefill: new PrefillStage({ ...prefill, router, observer }),
    };
  }

  /** Returns the sink for the answer to `request`: `sink`, or one around it that keeps the answer for the next turn. */
  listen({ speculatesPrefill, prompt }: GenerationRequest, sink: GenerationSink): GenerationSink {
    if (speculatesPrefill !== true || prompt.kind !== 'chat' || this.#options.max === 0) return sink;
    return prompt.continueFinalMessage === true || mediaParts(prompt) !== undefined ? sink : new OverheardSink(sink);
  }

  /** Prepares the next turn as soon as the answer has ended. @param sink the sink that `listen` has returned */
  follow(sink: GenerationSink, turn: Omit<Turn, 'messages' | 'heard'>): void {
    const { prompt } = turn.request;
    if (!(sink instanceof OverheardSink) || prompt.kind !== 'chat') return;
    const { messages } = prompt;
    sink.onEnd = (heard) => {
      this.#options.clock.after(0, () => this.#prepare({ ...turn, messages, heard })); // after the answer has been sent
    };
  }

  /** Stops the prompts computed ahead for the turn that this client's request is. */
  arrived({ model, prompt, routing }: GenerationRequest): void {
    if (this.#underWay.size === 0 || prompt.kind !== 'chat') return;
    for (const ahead of this.#underWay) {
      const { request, messages, heard } = ahead.turn;
      if (request.model !== model) continue;
      const isSameSession = routing.session_id !== undefined && routing.session_id === request.routing.session_id;
      if (isSameSession || isNextTurn(prompt.messages, messages, heard)) ahead.stop('superseded');
    }
  }

  /** Stops all prompts computed ahead. Idempotent. */
  close(): void {
    this.#isClosed = true;
    for (const ahead of this.#underWay) ahead.stop('dropped');
  }

  #prepare(turn: Turn): void {
    const { observer, clock, max } = this.#options;
    const model = turn.model.primaryName;
    if (this.#isClosed || this.#underWay.size >= max) {
      observer.speculated?.(model, 'dropped');
      return;
    }
    const leaving = new AbortController();
    let deadline: Timer | undefined;
    let isOver = false;
    const over = (outcome: SpeculationOutcome): void => {
      if (isOver) return;
      isOver = true;
      deadline?.cancel();
      this.#underWay.delete(ahead);
      observer.speculated?.(model, outcome);
    };
    const ahead: Ahead = {
      turn,
      stop: (why) => {
        over(why);
        leaving.abort(workerError('Cancelled'));
      },
    };
    this.#underWay.add(ahead);
    deadline = clock.after(LASTS_MS_MAX, () => ahead.stop('dropped'));
    this.#start(turn, leaving.signal, over).catch((thrown: unknown) => over(outcomeOf(toServeError(thrown))));
  }

  async #start(turn: Turn, signal: AbortSignal, over: (outcome: SpeculationOutcome) => void): Promise<void> {
    const { tools, random } = this.#options;
    const { request, model, loaded } = turn;
    const tokenIds = await knownTokens(turn, tools, signal);
    if (tokenIds.length <= turn.promptTokens) {
      over('nothing_new');
      return;
    }
    const asked: GenerationRequest = {
      ...only(request),
      id: random.uuid(),
      prompt: { kind: 'tokens', tokenIds: [...tokenIds] },
    };
    const prompt = await preprocess(asked, model, loaded, tools, signal);
    if (signal.aborted) return;
    const sink = new DeafSink(over);
    const response = new ResponseAssembler(asked, prompt, loaded, sink, UNMETERED);
    new RequestRun(this.#run, asked, model, prompt, response, sink, signal).start();
  }
}

/** Aborted signal, by which a request leaves the router's queue as soon as it enters it. */
const BUSY = AbortSignal.abort(workerError('WorkerOverloaded', 'nothing is computed ahead while clients wait'));

/** Returns the parts of a request that its next turn shares: the client, the owner of the blocks and their place. */
function only(request: GenerationRequest): Omit<GenerationRequest, 'id' | 'prompt'> {
  const { model, endpoint, metadata, routing, trace, extraArgs: _, ...rest } = request;
  const { priority: __, priority_jump: ___, strict_priority: ____, expected_output_tokens: _____, ...kept } = routing;
  const { traceparent, tracestate } = trace;
  return {
    model,
    endpoint,
    metadata,
    routing: kept,
    stream: false,
    stop: { max_tokens: 1 },
    sampling: { temperature: 0 },
    output: {},
    annotations: [],
    extraFields: [],
    trace: {
      ...(traceparent === undefined ? {} : { traceparent }),
      ...(tracestate === undefined ? {} : { tracestate }),
    },
    ...(rest.routerConfigOverride === undefined ? {} : { routerConfigOverride: rest.routerConfigOverride }),
  };
}

/**
 * Returns the tokens with which the next turn begins, whatever its message says: the common prefix of two renderings
 * that differ only in the text of that message. So it does not matter how a template writes an earlier answer.
 */
async function knownTokens(turn: Turn, tools: PromptTools, signal: AbortSignal): Promise<Uint32Array> {
  const [one, other] = await Promise.all(['1', 'a'].map((text) => tokensWith(turn, text, tools, signal)));
  if (one === undefined || other === undefined) return new Uint32Array(0);
  let same = 0;
  while (same < one.length && one[same] === other[same]) same++;
  return one.subarray(0, same);
}

async function tokensWith(
  { request, model, loaded, messages, heard }: Turn,
  text: string,
  tools: PromptTools,
  signal: AbortSignal,
): Promise<Uint32Array | undefined> {
  const next: ChatMessage =
    heard.calls[0] === undefined
      ? { role: 'user', content: text }
      : { role: 'tool', tool_call_id: heard.calls[0].id, content: text };
  const prompt = { ...request.prompt, messages: [...messages, answerOf(heard), next] };
  const whole = { ...request, prompt, stop: { max_tokens: 1 } } as GenerationRequest; // its prompt is a chat
  const { request: ready }: Preprocessed = await preprocess(whole, model, loaded, tools, signal);
  return ready.input.kind === 'tokens' ? ready.input.tokenIds : undefined;
}

function answerOf({ text, calls }: Heard): ChatMessage {
  if (calls.length === 0) return { role: 'assistant', content: text };
  return {
    role: 'assistant',
    content: text === '' ? null : text,
    tool_calls: calls.map(({ id, name, arguments: given }) => ({
      id,
      type: 'function',
      function: { name, arguments: given },
    })),
  };
}

/** Whether `messages` continue the turn: they have its messages, then its answer. */
function isNextTurn(messages: readonly ChatMessage[], before: readonly ChatMessage[], { text }: Heard): boolean {
  const at = before.length;
  if (messages.length <= at || JSON.stringify(messages[at - 1]) !== JSON.stringify(before[at - 1])) return false;
  return (messages[at]?.content ?? '') === text;
}

/** Returns the outcome after a failure. Full or leaving workers are not a fault. */
function outcomeOf({ code }: ServeError): SpeculationOutcome {
  const isNoRoom = code === 'server_overloaded' || code === 'service_unavailable' || code === 'context_length_exceeded';
  return isNoRoom ? 'dropped' : 'failed';
}

/** Returns an observer without the steps of requests, because no client has made this one. */
function quiet(observer: PipelineObserver): PipelineObserver {
  const { workerStalled } = observer;
  return workerStalled === undefined ? {} : { workerStalled };
}

const UNMETERED: RequestMeter = {
  promptTokens() {},
  promptEstimate() {},
  cachedTokens() {},
  servedBy() {},
  moved() {},
  outputTokens() {},
  piece() {},
  piecesHold() {},
  end() {},
  usage: { promptTokens: 0, completionTokens: 0 },
  workerId: undefined,
  moves: 0,
  ttftMs: undefined,
};

/** Discards an answer, and reports how it ended. */
class DeafSink implements GenerationSink {
  readonly #over: (outcome: SpeculationOutcome) => void;

  constructor(over: (outcome: SpeculationOutcome) => void) {
    this.#over = over;
  }

  end(_usage: Usage): void {
    this.#over('done');
  }

  fail(error: ServeError): void {
    this.#over(outcomeOf(error));
  }

  isBlocked(): boolean {
    return false;
  }

  text(): void {}
  delta(): void {}
  finish(): void {}
  reasoning(): void {}
  toolCall(): void {}
  toolArguments(): void {}
  annotation(): void {}
  worker(): void {}
  routed(): void {}
  engineData(): void {}
  body(): void {}
  onUnblocked(): void {}
}
