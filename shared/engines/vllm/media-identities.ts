import type { EngineOutput, EngineRequest } from '../../protocol/index.ts';
import { asRecord, isRecord } from '../../records/index.ts';
import { mediaIdentity } from '../../tokens/index.ts';
import { withGenerate } from '../media/guarded-engine.ts';
import type { Engine, EngineSink } from '../types.ts';

type Body = Readonly<Record<string, unknown>>;
type Part = Readonly<Record<string, unknown>>;

const MEDIA: ReadonlySet<unknown> = new Set(['image_url', 'video_url', 'audio_url']);

/** Arguments of vLLM that change how media are read; it mixes them into its own identifiers. */
const READING = /^--(media[-_]io[-_]kwargs|mm[-_]processor[-_]kwargs)(=|$)/;

/** Returns whether an engine with these arguments reports media by the identities that it was given. */
export function keepsIdentities(engineArguments: readonly string[]): boolean {
  return !engineArguments.some((argument) => READING.test(argument));
}

/**
 * Wraps a vLLM so that media, which are already inline, get identities that its KV events report. Frontends that
 * request them get the identities, and the prompt in tokens.
 * @param keepsThem false if the events report other identities: then frontends get none
 */
export function createIdentifyingEngine(engine: Engine, keepsThem = true): Engine {
  return withGenerate(engine, (request, sink, signal) => {
    const { input, mmRoutingInfo } = request;
    if (input.kind !== 'text') return engine.generate(request, sink, signal);
    const { body, ids } = withIdentities(input.body);
    const asks = asRecord(mmRoutingInfo);
    const wanted = asks?.wants_tokens === true ? { return_token_ids: true } : {};
    const named: EngineRequest = { ...request, input: { ...input, body: { ...body, ...wanted } } };
    const outputs =
      asks === undefined
        ? sink
        : identitySink(sink, keepsThem ? ids : ids.map(() => ''), input.body.return_token_ids === true);
    engine.generate(named, outputs, signal);
  });
}

/**
 * Returns a sink that adds the identities of the media to the first output, and removes the tokens requested for the
 * frontend from the bodies.
 * @param showsTokens whether the client has requested them too
 */
function identitySink(sink: EngineSink, ids: readonly string[], showsTokens: boolean): EngineSink {
  let isFirst = true;
  return {
    tokens: (...tokens) => sink.tokens(...tokens),
    output: (output: EngineOutput) => {
      const body = asRecord(output.body);
      const promptIds = isFirst ? body?.prompt_token_ids : undefined;
      const media = isFirst ? { prompt_media: { ids, ...(isTokens(promptIds) ? { token_ids: promptIds } : {}) } } : {};
      isFirst = false;
      const shown = body === undefined || showsTokens ? {} : { body: withoutTokens(body) };
      sink.output({ ...output, ...shown, ...media });
    },
    end: () => sink.end(),
    fail: (error) => sink.fail(error),
    isBlocked: () => sink.isBlocked(),
    onUnblocked: (listener) => sink.onUnblocked(listener),
  };
}

function isTokens(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((id) => Number.isInteger(id));
}

function withoutTokens(body: Body): Body {
  const { prompt_token_ids: _prompt, choices, ...rest } = body;
  if (!Array.isArray(choices)) return rest;
  const shown = choices.map((choice: unknown) => {
    if (!isRecord(choice)) return choice;
    const { token_ids: _tokens, ...own } = choice;
    return own;
  });
  return { ...rest, choices: shown };
}

/**
 * Returns the body with an identity for each inline medium. The engine uses it from then on and reports it in its KV
 * events; a client's own identity could pass one picture off as another. A sound inside a message has none.
 */
function withIdentities(body: Body): { readonly body: Body; readonly ids: readonly string[] } {
  const ids: string[] = [];
  if (!Array.isArray(body.messages)) return { body, ids };
  const messages = body.messages.map((message: unknown) => {
    if (!isRecord(message) || !Array.isArray(message.content)) return message;
    const content = message.content.map((part: unknown) =>
      isRecord(part) ? identified(part, body.media_io_kwargs, ids) : part,
    );
    return { ...message, content };
  });
  return { body: ids.length === 0 ? body : { ...body, messages }, ids };
}

function identified(part: Part, reading: unknown, ids: string[]): Part {
  const { type } = part;
  if (type === 'input_audio') ids.push('');
  if (!MEDIA.has(type)) return part;
  const url = asRecord(part[type as string])?.url;
  const id = typeof url === 'string' && url.startsWith('data:') ? mediaIdentity(url, reading ?? undefined) : '';
  ids.push(id);
  return id === '' ? part : { ...part, uuid: id };
}
