import type { IncomingHttpHeaders } from 'node:http';
import type { Clock } from '../../clock/index.ts';
import type { ModelType } from '../../discovery/index.ts';
import { ServeError, toServeError, workerError } from '../../errors/index.ts';
import type { EngineRequest } from '../../protocol/index.ts';
import { asRecord, type UnknownRecord } from '../../records/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { type AnswerReader, OpenExchanges, type Plan } from '../http/exchange.ts';
import { BodyReader, noSuchModel, planText, readModels } from '../http/openai-wire.ts';
import { asText, tracingHeaders } from '../http/upstream.ts';
import { EngineHost } from '../server/engine-host.ts';
import type { LaunchPlan } from '../server/launch-plan.ts';
import type { Engine, EngineInfo, EngineLoad, EngineSink } from '../types.ts';
import { fieldsOf, filesOf, formOf } from './omni-fields.ts';

const PROBE_TIMEOUT_MS = 5000;
/** Status of the health check when the engine's core has died. */
const DEAD_STATUS = 503;
/** Longest silence: a video sends nothing until it is finished. The server's own limit is ten minutes. */
const IDLE_TIMEOUT_MS = 900_000;

/** Kind of output of a model (`--output-modalities`). */
export type OutputModality = 'text' | 'image' | 'video';

const MODEL_TYPES: Readonly<Record<OutputModality, readonly ModelType[]>> = {
  text: ['Chat'],
  image: ['Images', 'Chat'],
  video: ['Videos'],
};

export interface OmniEngineOptions {
  /** URL of a server that already runs ... */
  readonly url?: string | undefined;
  /** ... or the plan for starting one. */
  readonly launch?: LaunchPlan | undefined;
  readonly apiKey?: string | undefined;
  readonly startTimeoutMs?: number | undefined;
  /** Name of the model in the server. @default the first one that it lists */
  readonly modelName?: string | undefined;
  readonly makes: readonly OutputModality[];
  /** Frames per second of a video whose request does not set them. @default the engine's own */
  readonly defaultFps?: number | undefined;
  /** Size limit of an answer to a frontend. */
  readonly answerBytesMax: number;
}

/**
 * vLLM-Omni behind its own HTTP server. Chats pass through unchanged; pictures use `/v1/images/generations` and
 * `/v1/images/edits`; videos use `/v1/videos/sync`, which answers when the video is finished.
 */
export class OmniEngine implements Engine {
  readonly kind = 'vllm';
  readonly isOwn: boolean;
  readonly #options: OmniEngineOptions;
  readonly #logger: Logger;
  readonly #host: EngineHost;
  readonly #open: OpenExchanges;
  #modelName: string | undefined;
  #isStopped = false;

  constructor(options: OmniEngineOptions, { clock, logger }: { readonly clock: Clock; readonly logger: Logger }) {
    this.#options = options;
    this.#logger = logger;
    const { url, launch, apiKey } = options;
    this.isOwn = launch !== undefined;
    const startTimeoutMs = options.startTimeoutMs ?? (launch === undefined ? 10_000 : 1_800_000);
    const probe = (signal: AbortSignal): Promise<void> => this.#host.probe(DEAD_STATUS, PROBE_TIMEOUT_MS, signal);
    this.#open = new OpenExchanges({ clock, idleTimeoutMs: IDLE_TIMEOUT_MS, probe });
    this.#host = new EngineHost({ url, launch, apiKey, connectTimeoutMs: 5000, startTimeoutMs, clock, logger });
  }

  async start(signal: AbortSignal): Promise<EngineInfo> {
    await this.#host.start(signal);
    const { text } = await this.#host.whileStarting(signal).ask({ path: '/v1/models' });
    const models = readModels(text);
    const { modelName: wanted, makes } = this.#options;
    const model = wanted === undefined ? models[0] : models.find(({ id }) => id === wanted);
    if (model === undefined) throw noSuchModel(models, wanted);
    this.#modelName = model.id;
    this.#logger.info('engine is up', { engine: 'vllm-omni', model: model.id, makes });
    return {
      contextLength: model.contextLength,
      kvBlockSizeTokens: 16, // no router uses them
      totalKvBlocks: 0,
      maxNumSeqs: undefined,
      maxNumBatchedTokens: undefined,
      dataParallelSize: 1,
      modelInput: 'Text',
      modelType: [...new Set(makes.flatMap((each) => MODEL_TYPES[each]))],
      publishesKvEvents: false,
      modelName: model.id,
    };
  }

  generate(request: EngineRequest, sink: EngineSink, signal: AbortSignal): void {
    if (signal.aborted) return;
    if (request.isHealthCheck === true) {
      this.#prove(sink, signal);
      return;
    }
    let plan: Plan;
    try {
      if (this.#isStopped) throw workerError('EngineShutdown', 'the engine is stopped');
      plan = this.#plan(request, sink);
    } catch (thrown) {
      sink.fail(toServeError(thrown));
      return;
    }
    this.#open.start({ upstream: this.#host.upstream, plan, sink, signal });
  }

  health(signal: AbortSignal): Promise<void> {
    return this.#host.health(DEAD_STATUS, signal);
  }

  load(): readonly EngineLoad[] {
    const unknown = { waitingRequests: 0, usedKvBlocks: 0, totalKvBlocks: 0, activePrefillTokens: 0 };
    return [{ dpRank: 0, runningRequests: this.#open.count, ...unknown }];
  }

  onKvEvents(): void {
    // each of its stages has a cache of its own
  }

  onExit(listener: (reason: Error) => void): void {
    this.#host.onExit(listener);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#open.fail(workerError('EngineShutdown', 'the engine is stopped'));
    await this.#host.stop();
  }

  /** Answers a health check of the worker with the engine's own: a picture as a test would cost seconds of a GPU. */
  #prove(sink: EngineSink, signal: AbortSignal): void {
    this.#host.probe(DEAD_STATUS, PROBE_TIMEOUT_MS, signal).then(
      () => {
        sink.output({ index: 0, finish_reason: 'stop' });
        sink.end();
      },
      (thrown: unknown) => {
        if (!signal.aborted) sink.fail(toServeError(thrown));
      },
    );
  }

  #plan(request: EngineRequest, sink: EngineSink): Plan {
    const { input } = request;
    const headers = tracingHeaders(request);
    if (input.kind === 'text' && input.endpoint === 'images')
      return this.#planPictures(input.body, request.id, sink, headers);
    if (input.kind === 'text' && input.endpoint === 'videos')
      return this.#planVideo(input.body, request.id, sink, headers);
    return planText(request, sink, 'this engine', this.#modelName, headers);
  }

  #planPictures(body: UnknownRecord, id: string, sink: EngineSink, headers: Readonly<Record<string, string>>): Plan {
    const fields = { ...fieldsOf('pictures', body), model: this.#modelName ?? '' };
    const files = filesOf(body, { picture: 'image', mask: 'mask_image' });
    const reader = new PicturesReader(sink, this.#options.answerBytesMax);
    if (files.length === 0)
      return { message: { path: '/v1/images/generations', body: JSON.stringify(fields), headers }, reader };
    const form = formOf([...textsOf(fields), ...files], `stator-${id}`);
    return { message: { path: '/v1/images/edits', form, headers }, reader };
  }

  #planVideo(body: UnknownRecord, id: string, sink: EngineSink, headers: Readonly<Record<string, string>>): Plan {
    const { defaultFps: fps, answerBytesMax } = this.#options;
    const fields = { ...(fps === undefined ? {} : { fps }), ...fieldsOf('video', body), model: this.#modelName ?? '' };
    const form = formOf([...textsOf(fields), ...filesOf(body, { picture: 'input_reference' })], `stator-${id}`);
    return { message: { path: '/v1/videos/sync', form, headers }, reader: new VideoReader(sink, answerBytesMax) };
  }
}

function textsOf(fields: Readonly<Record<string, string | number | boolean>>) {
  return Object.entries(fields).map(([name, value]) => ({ name, text: String(value) }));
}

/** Bytes of an answer besides the base64 of its output. */
const ENVELOPE_BYTES = 64 * 1024;

/**
 * Checks the size of an answer. @throws ServeError that tells the client what to change: another worker's output would
 * be as large
 */
function checkSize(base64Bytes: number, what: string, bytesMax: number): void {
  if (base64Bytes + ENVELOPE_BYTES <= bytesMax) return;
  const says = `${what} has ${base64Bytes} bytes in base64; an answer has at most ${bytesMax}: ask for less`;
  throw new ServeError('bad_worker_response', says);
}

/** Passes on the object of pictures unchanged. */
class PicturesReader extends BodyReader {
  readonly #bytesMax: number;

  constructor(sink: EngineSink, bytesMax: number) {
    super(sink);
    this.#bytesMax = bytesMax;
  }

  override whole(body: object): void {
    const { data } = body as { readonly data?: unknown };
    let bytes = 0;
    for (const each of Array.isArray(data) ? data : []) bytes += asText(asRecord(each)?.b64_json)?.length ?? 0;
    checkSize(bytes, 'the image', this.#bytesMax);
    super.whole(body);
  }
}

/** Makes the object of a video from its bytes. */
class VideoReader implements AnswerReader {
  readonly #sink: EngineSink;
  readonly #bytesMax: number;

  constructor(sink: EngineSink, bytesMax: number) {
    this.#sink = sink;
    this.#bytesMax = bytesMax;
  }

  bytes(bytes: Buffer, headers: IncomingHttpHeaders): void {
    if (bytes.length === 0) throw workerError('BackendProtocol', 'the engine answered with an empty video');
    checkSize(Math.ceil(bytes.length / 3) * 4, 'the video', this.#bytesMax);
    const format = /^video\/([a-z0-9]+)/.exec(headers['content-type'] ?? '')?.[1];
    const seconds = Number(headers['x-inference-time-s']);
    const data = [{ ...(format === undefined ? {} : { output_format: format }), b64_json: bytes.toString('base64') }];
    this.#sink.output({ body: { data, ...(seconds > 0 ? { inference_time_s: seconds } : {}) }, finish_reason: 'stop' });
  }

  event(): void {
    throw workerError('BackendProtocol', 'the engine streams a video');
  }

  whole(): void {
    throw workerError('BackendProtocol', 'the engine answered with no video');
  }

  finish(): void {
    // complete by itself
  }
}
