import { setTimeout as sleep } from 'node:timers/promises';
import { type ServeError, type WorkerErrorKind, workerError } from '../../shared/errors/index.ts';
import type { EngineOutput, EngineRequest, OutputSink, TopLogprob } from '../../shared/protocol/index.ts';

/** One engine output of a script. */
export interface ScriptStep {
  /** Text to encode to ids. */
  readonly t?: string;
  readonly ids?: readonly number[];
  /** Text that the worker decoded itself. Its bytes are the ids. */
  readonly text?: string;
  readonly index?: number;
  /** Seconds before this step. */
  readonly sleep?: number;
  /** Other keys, which go into the output unchanged. */
  readonly [key: string]: unknown;
}

/** The behaviour of a scripted worker for one request (test/fixtures/dynamo-http/README.md). */
export interface WorkerScript {
  readonly steps: readonly ScriptStep[];
  readonly sleep?: number;
  /** `eos` for token 258 with reason stop; null for a stream without a finish; otherwise that reason without tokens. */
  readonly finish: string | null;
  /** Fields to merge into the last output. */
  readonly last?: Readonly<Record<string, unknown>>;
  readonly usage?: EngineOutput['completion_usage'];
  readonly raise?: { readonly type: string; readonly msg: string; readonly code?: number };
  readonly raise_at?: number;
}

export interface ScriptedEngineOptions {
  /** Scripts by id. A prompt names its script as `[[s:ID]]`, and the last tag wins. */
  readonly scripts: ReadonlyMap<string, WorkerScript>;
  encode(text: string): ArrayLike<number>;
  decode(ids: ArrayLike<number>): string;
}

/** A request that the engine received, with its prompt as text. */
export interface SeenRequest {
  readonly request: EngineRequest;
  readonly prompt: string;
  wasCancelled: boolean;
}

const EOS = 258;
const DEFAULT_SCRIPT: WorkerScript = { steps: [{ t: 'Hello' }, { t: ' world' }, { t: '!' }], finish: 'eos' };
const STEP_KEYS: ReadonlySet<string> = new Set(['t', 'ids', 'text', 'index', 'sleep']);
const TAG = /\[\[s:([^\]]+)\]\]/g;

/** An engine that plays recorded scripts, one output in each step. */
export class ScriptedEngine {
  readonly seen: SeenRequest[] = [];
  readonly #options: ScriptedEngineOptions;

  constructor(options: ScriptedEngineOptions) {
    this.#options = options;
  }

  /** Plays the script that the prompt names, one step in each turn, until `signal` aborts. */
  async generate(request: EngineRequest, sink: OutputSink, signal: AbortSignal): Promise<void> {
    const prompt = this.#promptOf(request);
    const seen: SeenRequest = { request, prompt, wasCancelled: false };
    if (request.isHealthCheck !== true) this.seen.push(seen); // a canary is not a request of a client
    try {
      await this.#play(this.#scriptOf(prompt), request, sink, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
      seen.wasCancelled = true;
      sink.end();
    }
  }

  /** Whether the request names a script of bodies, which a worker plays that takes requests untouched. */
  playsBodies(request: EngineRequest): boolean {
    return this.#scriptOf(this.#promptOf(request)).steps.some(({ body }) => body !== undefined);
  }

  /** Returns the prompt as text, or the body for a worker that takes bodies. */
  #promptOf({ input }: EngineRequest): string {
    if (input.kind === 'text') return JSON.stringify(input.body);
    return this.#options.decode(input.kind === 'tokens' ? input.tokenIds : new Uint32Array(0));
  }

  #scriptOf(prompt: string): WorkerScript {
    const tag = [...prompt.matchAll(TAG)].at(-1)?.[1];
    return (tag === undefined ? undefined : this.#options.scripts.get(tag)) ?? DEFAULT_SCRIPT;
  }

  async #play(script: WorkerScript, request: EngineRequest, sink: OutputSink, signal: AbortSignal): Promise<void> {
    const n = request.sampling.n ?? 1;
    let budget = n === 1 ? (request.stop.max_tokens ?? Number.POSITIVE_INFINITY) : Number.POSITIVE_INFINITY;
    for (let at = 0; at < script.steps.length; at++) {
      if (script.raise !== undefined && (script.raise_at ?? 0) === at) return sink.fail(raised(script.raise));
      const step = script.steps[at]!; // `at` is within the array
      await sleep((step.sleep ?? script.sleep ?? 0) * 1000, undefined, { signal });
      const ids = this.#idsOf(step).slice(0, budget);
      budget -= ids.length;
      const isCut = budget <= 0;
      for (const choice of choicesOf(step, n)) this.#emit(step, ids, choice, request, sink, isCut);
      if (isCut) return sink.end();
    }
    if (script.raise !== undefined) return sink.fail(raised(script.raise));
    await sleep(0, undefined, { signal });
    for (let choice = 0; choice < n; choice++) this.#finish(script, choice, request, sink);
    sink.end();
  }

  #idsOf(step: ScriptStep): number[] {
    if (step.ids !== undefined) return [...step.ids];
    if (step.text !== undefined) return [...Buffer.from(step.text)];
    return Array.from(this.#options.encode(step.t ?? ''));
  }

  #emit(
    step: ScriptStep,
    ids: number[],
    choice: number,
    request: EngineRequest,
    sink: OutputSink,
    isCut: boolean,
  ): void {
    const extra = Object.fromEntries(Object.entries(step).filter(([key]) => !STEP_KEYS.has(key)));
    const alternatives = request.output.logprobs;
    const isPlain = Object.keys(extra).length === 0 && step.text === undefined && !isCut && alternatives === undefined;
    if (isPlain) {
      sink.tokens(choice, ids, 0, ids.length);
      return;
    }
    sink.output({
      token_ids: ids,
      index: choice,
      ...(step.text === undefined ? {} : { text: step.text }),
      ...(alternatives === undefined ? {} : logprobsOf(ids, alternatives, step)),
      ...extra,
      ...(isCut ? { finish_reason: 'length' as const } : {}),
    });
  }

  #finish(script: WorkerScript, choice: number, request: EngineRequest, sink: OutputSink): void {
    if (script.finish === null) return;
    const isEos = script.finish === 'eos';
    const hasLogprobs = isEos && request.output.logprobs !== undefined;
    sink.output({
      index: choice,
      token_ids: isEos ? [EOS] : [],
      finish_reason: (isEos ? 'stop' : script.finish) as EngineOutput['finish_reason'] & string,
      ...(hasLogprobs
        ? { log_probs: [-0.1], top_logprobs: [[{ rank: 0, token_id: EOS, token: '<|im_end|>', logprob: -0.1 }]] }
        : {}),
      ...(script.usage === undefined ? {} : { completion_usage: script.usage }),
      ...script.last,
    });
  }
}

function choicesOf(step: ScriptStep, n: number): readonly number[] {
  return step.index === undefined ? Array.from({ length: n }, (_, at) => at) : [step.index];
}

/**
 * Returns log probabilities by the rule of the recorded workers: id i has -0.01*((i mod 50)+1), the alternative of rank
 * r 0.5*r less.
 */
function logprobsOf(
  ids: readonly number[],
  alternatives: number,
  step: ScriptStep,
): Pick<EngineOutput, 'log_probs' | 'top_logprobs'> {
  if ('log_probs' in step) return {};
  const own = (id: number): number => -0.01 * ((id % 50) + 1);
  const ranks = (id: number): TopLogprob[] =>
    Array.from({ length: alternatives }, (_, rank) => ({
      rank,
      token_id: (id + rank) % 256,
      logprob: own(id) - 0.5 * rank,
    }));
  return { log_probs: ids.map(own), top_logprobs: ids.map(ranks) };
}

/** Worker errors of the recording, with their classes on our wire. */
const KIND_OF_TYPE: Readonly<Record<string, WorkerErrorKind>> = {
  ValueError: 'InvalidArgument',
  TypeError: 'InvalidArgument',
  InvalidArgument: 'InvalidArgument',
  RuntimeError: 'Internal',
  Exception: 'Unknown',
  Unknown: 'Unknown',
  Cancelled: 'Cancelled',
  CannotConnect: 'CannotConnect',
  EngineShutdown: 'EngineShutdown',
  StreamIncomplete: 'StreamIncomplete',
  WorkerUnavailable: 'WorkerUnavailable',
};

function raised({ type, msg, code }: NonNullable<WorkerScript['raise']>): ServeError {
  if (type === 'HttpError') {
    const isMistake = code === 400 || code === 422;
    return workerError(isMistake ? 'InvalidRequest' : 'Unknown', msg, { status: code });
  }
  return workerError(KIND_OF_TYPE[type] ?? 'Unknown', msg);
}
