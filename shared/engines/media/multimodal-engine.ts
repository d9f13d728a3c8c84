import { toServeError, workerError } from '../../errors/index.ts';
import type { EngineOutput, EngineRequest } from '../../protocol/index.ts';
import { asRecord, isRecord } from '../../records/index.ts';
import type { Engine, EngineSink } from '../types.ts';
import { withGenerate } from './guarded-engine.ts';
import { mediaUrlsOf } from './media-urls.ts';

export interface MultimodalOptions {
  /** Whether media parts are accepted (`--enable-multimodal`). */
  readonly accepts: boolean;
  /** Whether the engine encodes media for other workers and generates nothing. */
  readonly isEncoder: boolean;
  /**
   * Text around a message with media: `<prompt>` stands for the message's own text. @default the message is left
   * unchanged
   */
  readonly promptTemplate?: string | undefined;
}

type Body = Readonly<Record<string, unknown>>;

/**
 * Wraps an engine that takes media, or refuses them. The result of an encode worker arrives as `encoder_result` and
 * goes to the engine as the `ec_transfer_params` of its encoder-cache connector, and the reverse; its content is
 * opaque.
 *
 * | `engine` is | health check | names media | else |
 * |---|---|---|---|
 * | an encoder | its health | only its media, one token requested | refused |
 * | accepting | unchanged | with the template and the result | unchanged |
 * | not accepting | unchanged | refused | unchanged |
 */
export function createMultimodalEngine(engine: Engine, options: MultimodalOptions): Engine {
  const generate: Engine['generate'] = (request, sink, signal) => {
    const body = request.input.kind === 'text' ? request.input.body : {};
    const named = mediaUrlsOf(body);
    if (options.isEncoder) return encode(engine, request, body, sink, signal);
    if (named.length === 0) return engine.generate(request, sink, signal);
    if (!options.accepts) {
      const param = named[0]?.path ?? 'messages';
      const says = 'this model takes no media: its workers need --enable-multimodal';
      return sink.fail(workerError('InvalidArgument', says, { param }));
    }
    const ec = asRecord(request.encoderResult?.ec_transfer_params);
    const mapped = { ...withPromptTemplate(body, options.promptTemplate), ...(ec && { ec_transfer_params: ec }) };
    engine.generate(withBody(request, mapped), sink, signal);
  };
  return withGenerate(engine, generate);
}

function encode(engine: Engine, request: EngineRequest, body: Body, sink: EngineSink, signal: AbortSignal): void {
  if (request.isHealthCheck === true) {
    engine
      .health(signal)
      .then(() => {
        sink.output({ index: 0, finish_reason: 'stop' });
        sink.end();
      })
      .catch((thrown: unknown) => {
        if (!signal.aborted) sink.fail(toServeError(thrown));
      });
    return;
  }
  const messages = mediaAlone(body);
  if (messages.length === 0) {
    sink.fail(workerError('InvalidArgument', 'an encode worker takes requests with media only'));
    return;
  }
  const asked = { model: body.model, messages, max_tokens: 1, stream: false };
  engine.generate(withBody({ ...request, mmRoutingInfo: undefined }, asked), resultSink(sink), signal);
}

/** Reduces the engine's answer to one final output: its result, and no tokens. */
function resultSink(sink: EngineSink): EngineSink {
  let params: unknown;
  return {
    tokens: () => {},
    output: (output: EngineOutput) => {
      params ??= asRecord(output.body)?.ec_transfer_params ?? undefined;
    },
    end: () => {
      // A connector with a shared store finds its data by the media's own hashes, and sends no parameters.
      const result = params === undefined ? {} : { ec_transfer_params: params };
      sink.output({ index: 0, finish_reason: 'stop', encoder_result: result });
      sink.end();
    },
    fail: (error) => sink.fail(error),
    isBlocked: () => false,
    onUnblocked: () => {},
  };
}

function withBody(request: EngineRequest, body: Body): EngineRequest {
  return request.input.kind === 'text' ? { ...request, input: { ...request.input, body } } : request;
}

type Part = Readonly<Record<string, unknown>>;

const MEDIA: ReadonlySet<unknown> = new Set(['image_url', 'video_url', 'audio_url']);

/** Returns the media of a chat as one message of the user, in order; empty if there are none. */
function mediaAlone(body: Body): readonly object[] {
  const content = messagesOf(body).flatMap((message) => partsOf(message).filter(({ type }) => MEDIA.has(type)));
  return content.length === 0 ? [] : [{ role: 'user', content }];
}

/** Returns the body with the template around the text of each message with media (`--mm-prompt-template`). */
function withPromptTemplate(body: Body, template: string | undefined): Body {
  if (template === undefined) return body;
  return { ...body, messages: messagesOf(body).map((message) => templated(message, template)) };
}

function templated(message: Part, template: string): Part {
  const parts = partsOf(message);
  if (!parts.some(({ type }) => MEDIA.has(type))) return message;
  const text = parts.map((part) => (part.type === 'text' ? String(part.text) : '')).filter((each) => each !== '');
  const prompt = template.replaceAll('<prompt>', () => text.join('\n'));
  return { ...message, content: [...parts.filter(({ type }) => type !== 'text'), { type: 'text', text: prompt }] };
}

function messagesOf({ messages }: Body): readonly Part[] {
  return Array.isArray(messages) ? messages.filter(isRecord) : [];
}

function partsOf({ content }: Part): readonly Part[] {
  return Array.isArray(content) ? content.filter(isRecord) : [];
}
